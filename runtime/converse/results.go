package converse

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// readTool is the tool with which a model reads more pages of a long result. It makes no call.
const readTool = "holdpoint_read_result"

func readDefinition() model.Tool {
	return model.Tool{
		Name: readTool,
		Description: "Reads on in the result of an earlier tool call of this conversation that was too long to be shown as a whole. " +
			"It does not make the call again.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"result":{"type":"string","description":"The id of the result, as the note at its end gives it."},` +
			`"page":{"type":"integer","minimum":1,"description":"Which page of it, from 1 on."}},` +
			`"required":["result","page"],"additionalProperties":false}`),
	}
}

// buildResults returns the results of the last reply's calls.
func (t *turn) buildResults(ctx context.Context) (*Results, error) {
	reply, err := t.readReply(ctx)
	if err != nil {
		return nil, err
	}
	refused, err := t.readRefusals(ctx)
	if err != nil {
		return nil, err
	}
	known, err := t.s.Calls.ReadCalls(ctx, reply.callIDs())
	if err != nil {
		return nil, err
	}
	all := &Results{Results: make([]Result, len(reply.Calls))}
	for i := range reply.Calls {
		made := &reply.Calls[i]
		r := Result{ModelID: made.ModelID, CallID: made.ID}
		c, recorded := known[made.ID]
		switch {
		case made.Refused != "":
			r.Text, r.IsError = made.Refused, true
		case made.Builtin != nil:
			r.Text, r.IsError = t.answerReadTool(ctx, made.Builtin)
		case refused[made.ID] != "":
			r.Text, r.IsError = refused[made.ID], true
		case !recorded:
			return nil, fmt.Errorf("conversation %s: call %s was never made", t.id, made.ID)
		default:
			t.s.describeCall(&r, &c)
		}
		all.Results[i] = r
	}
	return all, nil
}

// readRefusals returns the reasons of the last reply's calls that were refused after the reply was stored.
func (t *turn) readRefusals(ctx context.Context) (map[uuid.UUID]string, error) {
	rows, _ := t.s.Pool.Query(ctx, `SELECT call_id, refused FROM loop_calls
		WHERE conversation_id = $1 AND seq = $2 AND refused IS NOT NULL`, t.id, t.loop.reply)
	refused := map[uuid.UUID]string{}
	var id uuid.UUID
	var reason string
	if _, err := pgx.ForEachRow(rows, []any{&id, &reason}, func() error { refused[id] = reason; return nil }); err != nil {
		return nil, fmt.Errorf("read refused calls: %w", err)
	}
	return refused, nil
}

// describeCall fills in the status of a call, the edits of a reviewer, and the first page of its result.
func (s *Service) describeCall(r *Result, c *call.Call) {
	r.IsError = c.Status != call.Succeeded
	text, images := describeResult(c)
	if text == "" && len(images) == 0 && !hasResult(c) {
		r.Text = c.ExplainEdits() + c.Explain()
		return
	}
	r.Images = images
	if c.WasEdited() {
		r.Text = c.ExplainEdits()
	} else if c.Gated {
		r.Text = "A reviewer approved this call, and it was made as you wanted it.\n\n"
	}
	r.Text += formatPage(text, c.ID, 1, s.ResultBytes)
}

// hasResult reports whether the server answered the call.
func hasResult(c *call.Call) bool {
	return (c.Status == call.Succeeded || c.Failure == tool.ToolError || c.Failure == tool.JSONRPCError) && len(c.Result) > 0
}

// answerReadTool returns a page of a result. Only results in this conversation can be read.
func (t *turn) answerReadTool(ctx context.Context, raw json.RawMessage) (text string, isError bool) {
	var wanted struct {
		Result string `json:"result"`
		Page   int    `json:"page"`
	}
	const usage = `Want {"result": the id that the note at the end of a result gives, "page": a number from 1 on}.`
	if err := json.Unmarshal(raw, &wanted); err != nil || wanted.Page < 1 {
		return usage, true
	}
	id, err := uuid.Parse(wanted.Result)
	if err != nil {
		return usage, true
	}
	const none = "There is no such result in this conversation."
	said, err := t.s.store.readTranscript(ctx, t.id)
	if err != nil {
		return "The result cannot be read now.", true
	}
	told := slices.ContainsFunc(said, func(e Entry) bool {
		return e.Tools != nil && slices.ContainsFunc(e.Tools.Results, func(r Result) bool { return r.CallID == id })
	})
	if !told {
		return none, true
	}
	known, err := t.s.Calls.ReadCalls(ctx, []uuid.UUID{id})
	c, there := known[id]
	if err != nil || !there {
		return none, true
	}
	if c.ContentDeletedAt != nil {
		return c.Explain(), true
	}
	text, _ = describeResult(&c)
	return formatPage(text, id, wanted.Page, t.s.ResultBytes), false
}

// formatPage returns a page of a text, with a note if there are more.
func formatPage(text string, id uuid.UUID, n, size int) string {
	part, pages := plain.Page(text, n, size)
	switch {
	case n > pages:
		return fmt.Sprintf("The result has %d pages.", pages)
	case pages == 1:
		return part
	}
	note := fmt.Sprintf("\n\n[Page %d of %d; the result has %d bytes.", n, pages, len(text))
	if n < pages {
		note += fmt.Sprintf(` To read on, call %s with {"result": "%s", "page": %d}.`, readTool, id, n+1)
	}
	return part + note + "]"
}

// block is one element of an MCP result's content.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     []byte `json:"data"`
	MimeType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource *struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     []byte  `json:"blob"`
	} `json:"resource"`
}

// parseContent parses the content of a call's result. It leaves out invalid content.
func parseContent(c *call.Call) (list []block, structured json.RawMessage) {
	var result struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
	}
	if json.Unmarshal(c.Result, &result) != nil {
		return nil, nil
	}
	list = make([]block, len(result.Content))
	for i, raw := range result.Content {
		if err := json.Unmarshal(raw, &list[i]); err != nil {
			list[i] = block{Type: "unreadable"}
		}
	}
	return list, result.Structured
}

// describeResult returns a call's result as text, and the indexes of its images.
func describeResult(c *call.Call) (text string, images []int) {
	if !hasResult(c) {
		return "", nil
	}
	if c.Failure == tool.JSONRPCError {
		return "The tool's server answered with an error: " + string(c.Result), nil
	}
	list, structured := parseContent(c)
	var parts []string
	for i := range list {
		b := &list[i]
		switch {
		case b.Type == "text":
			parts = append(parts, b.Text)
		case b.asImage() != nil:
			images = append(images, i)
			parts = append(parts, fmt.Sprintf("[image %d: %s, %d bytes]", i+1, plain.Line(b.asImage().MediaType, maxShown), len(b.asImage().Data)))
		case b.Type == "resource" && b.Resource != nil && b.Resource.Text != nil:
			parts = append(parts, "[resource "+plain.Line(b.Resource.URI, maxShown)+"]\n"+*b.Resource.Text)
		case b.Type == "resource" && b.Resource != nil:
			parts = append(parts, fmt.Sprintf("[resource %s: %s, %d bytes, not shown]",
				plain.Line(b.Resource.URI, maxShown), plain.Line(b.Resource.MimeType, maxShown), len(b.Resource.Blob)))
		case b.Type == "resource_link":
			parts = append(parts, "[link to the resource "+plain.Line(b.URI, maxShown)+" ("+plain.Line(b.Name, maxShown)+")]")
		default:
			parts = append(parts, fmt.Sprintf("[%s: %s, %d bytes, not shown]", plain.Line(b.Type, maxShown), plain.Line(b.MimeType, maxShown), len(b.Data)))
		}
	}
	if len(parts) == 0 && len(structured) > 0 {
		return string(structured), nil
	}
	if len(parts) == 0 {
		return "(The result is empty.)", nil
	}
	return strings.Join(parts, "\n"), images
}

const (
	maxImageBytes = 5 << 20 // of one image
	maxImages     = 8       // of one result
)

// asImage returns the image in a block, or nil.
func (b *block) asImage() *model.Image {
	mediaType, data := b.MimeType, b.Data
	if b.Type == "resource" && b.Resource != nil {
		mediaType, data = b.Resource.MimeType, b.Resource.Blob
	} else if b.Type != "image" {
		return nil
	}
	return newImage(mediaType, data)
}

func newImage(mediaType string, data []byte) *model.Image {
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	switch mediaType = strings.TrimSpace(mediaType); mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil
	}
	if len(data) == 0 || len(data) > maxImageBytes {
		return nil
	}
	return &model.Image{MediaType: mediaType, Data: data}
}
