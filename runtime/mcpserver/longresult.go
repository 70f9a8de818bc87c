package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// textBytes is how much text of a result a client is told at once, in bytes: of a longer one it gets the first page, and reads on with
// the tool by which it waits for calls. What is no text stays whole, as does structuredContent, which has to fit the tool's output schema.
const textBytes = 256 << 10

// long is a result with more text than is told at once.
type long struct {
	text     string   // all of it, an element a line
	others   [][]byte // the elements that are no text
	from, to int      // where the content is in the result
}

// longOf reads a result; nil: it is told as it came.
func longOf(raw []byte) *long {
	if len(raw) <= textBytes {
		return nil
	}
	var found long
	_, _, err := members(raw, func(name string, begin, end int) error {
		if name == "content" && raw[begin] == '[' {
			found.from, found.to = begin, end
		}
		return nil
	})
	var elements []json.RawMessage
	if err != nil || found.to == 0 || json.Unmarshal(raw[found.from:found.to], &elements) != nil {
		return nil
	}
	var texts []string
	for _, element := range elements {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(element, &block); err == nil && block.Type == "text" {
			texts = append(texts, block.Text)
			continue
		}
		found.others = append(found.others, element)
	}
	if found.text = strings.Join(texts, "\n"); len(found.text) <= textBytes {
		return nil
	}
	return &found
}

// firstPage is a result as it came, or, where it has more text than is told at once, with the first page of it and a note.
func firstPage(raw []byte, id uuid.UUID) []byte {
	found := longOf(raw)
	if found == nil {
		return raw
	}
	page, _ := resultPage(found.text, id, 1)
	told := append([]byte(nil), raw[:found.from]...)
	told = appendString(append(told, `[{"type":"text","text":`...), page)
	told = append(told, '}')
	for _, other := range found.others {
		told = append(append(told, ','), other...)
	}
	return append(append(told, ']'), raw[found.to:]...)
}

// resultPage is a page of the text of a call's result, with a note how to read on. False: there is no such page.
func resultPage(text string, id uuid.UUID, n int) (string, bool) {
	page, pages := plain.Page(text, n, textBytes)
	note := fmt.Sprintf("[Page %d of %d; the text of the result has %d bytes.", n, pages, len(text))
	switch {
	case n > pages:
		return fmt.Sprintf("The result has %d pages.", pages), false
	case n < pages:
		note += fmt.Sprintf(` To read on, call %s with {"call_id": "%s", "page": %d}. The call is not made again.`, awaitTool, id, n+1)
	}
	return page + "\n\n" + note + "]", true
}

// answerPage answers with a further page of the result of a call that has ended.
func (x *exchange) answerPage(c *call.Call, n int) {
	page, there := "The result has 1 page.", false
	if found := longOf(c.Result); found != nil {
		page, there = resultPage(found.text, c.ID, n)
	}
	if !there {
		x.say(page, callMeta(c.ID, c.Status, c.Code, c, true))
		return
	}
	end := `}]}`
	if c.Failure == tool.ToolError {
		end = `}],"isError":true}`
	}
	result := appendString([]byte(`{"content":[{"type":"text","text":`), page)
	pieces, err := dress(append(result, end...), callMeta(c.ID, c.Status, c.Code, c, true), x.modern)
	if err != nil {
		x.internal("tell a page of a result", err)
		return
	}
	x.reply(pieces...)
}
