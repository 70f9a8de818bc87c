package mcpserver

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// textBytes is the size of a page of a result's text, in bytes. A client gets the first page of a longer text and reads on with
// the tool that waits for calls. Other content stays whole, as does structuredContent, which must match the tool's output
// schema.
const textBytes = 256 << 10

// firstPage returns a result with the first page of its text and a note, or unchanged if the text fits one page.
func firstPage(raw []byte, id uuid.UUID) []byte {
	found := wire.ReadLongText(raw, textBytes)
	if found == nil {
		return raw
	}
	page, _ := resultPage(found.Text, id, 1)
	return found.Replace(raw, page)
}

// resultPage returns a page of the text of a call's result, with a note on how to read on; false if there is no such page.
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

// answerPage answers with a later page of the result of a call that has ended.
func (x *toolCall) answerPage(c *call.Call, n int) {
	page, there := "The result has 1 page.", false
	if found := wire.ReadLongText(c.Result, textBytes); found != nil {
		page, there = resultPage(found.Text, c.ID, n)
	}
	if !there {
		x.replyText(page, callMeta(c.ID, c.Status, c.Code, c, true))
		return
	}
	end := `]}`
	if c.Failure == tool.ToolError {
		end = `],"isError":true}`
	}
	result := wire.AppendText([]byte(`{"content":[`), page)
	pieces, err := wire.DressResult(append(result, end...), callMeta(c.ID, c.Status, c.Code, c, true), x.modern)
	if err != nil {
		x.failInternal("answer with a page of a result", err)
		return
	}
	x.reply(pieces...)
}
