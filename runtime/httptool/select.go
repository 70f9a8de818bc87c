package httptool

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// selected is what the binding's program makes of a JSON answer. When it fails, the call still succeeded: all of the answer is told, with
// a note, and nobody is led to make the call again.
func (x *exchange) selected(answer jsontext.Value) []block {
	selection, err := tool.ParseSelect(x.binding.Select)
	if err != nil {
		return unselected(answer, "the skill's select "+err.Error())
	}
	made, err := selection.Run(x.ctx, answer)
	if err != nil {
		return unselected(answer, "the skill's select failed: "+err.Error())
	}
	if len(made) == 0 {
		return []block{textBlock("[The call succeeded, and the skill's select makes nothing of its answer.]")}
	}
	return []block{textBlock(string(made))}
}

func unselected(answer jsontext.Value, why string) []block {
	return []block{textBlock(string(answer)), textBlock("[The call succeeded. This is all of its answer: " + why + "]")}
}
