package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// ClerkScript is the name of the demo's model: a script that files invoices. Besides the request, it knows only the names of
// the saved files.
const ClerkScript = "clerk"

const (
	listTool = InboxSkill + "__list_invoices"
	saveTool = DriveSkill + "__save_csv"
)

// Clerk answers like a model that files invoices: it lists them, saves one after the other, and says why.
func (s *Skills) Clerk(r *model.Request) (*model.Response, error) {
	for _, name := range []string{listTool, saveTool} {
		if !slices.ContainsFunc(r.Tools, func(t model.Tool) bool { return t.Name == name }) {
			return clerkSays("I cannot work without the tool " + name + "."), nil
		}
	}
	results := latestResults(r.Messages)
	listed := results[listTool]
	if len(listed) == 0 {
		return clerkCalls("I will list the invoices in the inbox.", listTool, struct{}{})
	}
	last := listed[len(listed)-1]
	var inbox inboxOut
	if last.IsError || json.Unmarshal([]byte(joinText(last.Parts)), &inbox) != nil {
		return clerkSays("I cannot read the inbox: " + joinText(last.Parts)), nil //nolint:nilerr // the clerk tells the person
	}
	saved, err := s.Saved()
	if err != nil {
		return nil, err
	}
	attempts := results[saveTool]
	var report []string
	for _, invoice := range inbox.Invoices {
		attempt := slices.IndexFunc(attempts, func(t toolResult) bool { return t.filename() == invoice.ID })
		switch {
		case attempt >= 0 && attempts[attempt].IsError:
			report = append(report, invoice.ID+" was not saved: "+joinText(attempts[attempt].Parts))
		case attempt >= 0:
			report = append(report, invoice.ID+" is saved.")
		case slices.Contains(saved, invoice.ID+".csv"):
			report = append(report, invoice.ID+" was already saved.")
		default:
			lines := "line"
			if len(invoice.Rows) > 1 {
				lines = fmt.Sprintf("%d lines", len(invoice.Rows))
			}
			text := fmt.Sprintf("%s is not on the drive yet. I will save its %s from %s.", invoice.ID, lines, invoice.Rows[0].Vendor)
			return clerkCalls(text, saveTool, saveCSVIn{Filename: invoice.ID, Rows: invoice.Rows})
		}
	}
	return clerkSays("I have handled all invoices. " + strings.Join(report, " ")), nil
}

// toolResult is the result of a call, with the call itself.
type toolResult struct {
	model.ToolResult
	arguments string
}

// filename returns the name of the file that the call saves.
func (t toolResult) filename() string {
	var in saveCSVIn
	if json.Unmarshal([]byte(t.arguments), &in) != nil {
		return ""
	}
	return in.Filename
}

// latestResults returns the results since the last message of a person, by tool.
func latestResults(messages []model.Message) map[string][]toolResult {
	calls := map[string]*model.ToolCall{}
	results := map[string][]toolResult{}
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Text != nil && m.Role == model.User:
				clear(results)
			case p.Call != nil:
				calls[p.Call.ID] = p.Call
			case p.Result != nil:
				if wanted := calls[p.Result.CallID]; wanted != nil {
					results[wanted.Name] = append(results[wanted.Name], toolResult{*p.Result, wanted.Arguments})
				}
			}
		}
	}
	return results
}

func joinText(parts []model.Part) string {
	var text []string
	for _, p := range parts {
		if p.Text != nil {
			text = append(text, p.Text.Text)
		}
	}
	return strings.Join(text, "\n")
}

func clerkSays(text string) *model.Response {
	return &model.Response{Parts: []model.Part{model.TextPart(text)}}
}

func clerkCalls(text, name string, arguments any) (*model.Response, error) {
	encoded, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("encode arguments: %w", err)
	}
	r := clerkSays(text)
	r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{Name: name, Arguments: string(encoded)}})
	return r, nil
}
