package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// ClerkScript is the name of the demo's model: a script that files invoices. It sees what every model sees, and nothing else
// but which files there are.
const ClerkScript = "clerk"

const (
	listTool = InboxSkill + "__list_invoices"
	saveTool = DriveSkill + "__save_csv"
)

// Clerk answers as a model would that files invoices: it lists them, saves one after the other, and says why.
func (s *Skills) Clerk(r *model.Request) (*model.Response, error) {
	for _, name := range []string{listTool, saveTool} {
		if !slices.ContainsFunc(r.Tools, func(t model.Tool) bool { return t.Name == name }) {
			return clerkSays("I cannot work: I was not given the tool " + name + "."), nil
		}
	}
	told := toldSince(r.Messages)
	listed := told[listTool]
	if len(listed) == 0 {
		return clerkCalls("I look what waits in the inbox.", listTool, struct{}{})
	}
	last := listed[len(listed)-1]
	inbox, readable := readInbox(last)
	if !readable {
		return clerkSays("I could not read the inbox: " + textOf(last.Parts)), nil
	}
	saved, err := s.Saved()
	if err != nil {
		return nil, err
	}
	tried := told[saveTool]
	var report []string
	for _, invoice := range inbox.Invoices {
		there := slices.Contains(saved, invoice.ID+".csv")
		if attempt := slices.IndexFunc(tried, func(t toldResult) bool { return t.filename() == invoice.ID }); attempt >= 0 {
			report = append(report, outcomeOf(invoice, tried[attempt]))
			continue
		}
		if there {
			report = append(report, invoice.ID+" had been saved before.")
			continue
		}
		text := fmt.Sprintf("%s is not on the drive yet. I save its %s from %s.", invoice.ID, lines(len(invoice.Rows)), invoice.Rows[0].Vendor)
		return clerkCalls(text, saveTool, saveCSVIn{Filename: invoice.ID, Rows: invoice.Rows})
	}
	return clerkSays("That was all. " + strings.Join(report, " ")), nil
}

// readInbox understands what the inbox said.
func readInbox(t toldResult) (inbox inboxOut, readable bool) {
	err := json.Unmarshal([]byte(textOf(t.Parts)), &inbox)
	return inbox, err == nil && !t.IsError
}

func outcomeOf(invoice Invoice, t toldResult) string {
	if t.IsError {
		return invoice.ID + " was not saved: " + textOf(t.Parts)
	}
	return invoice.ID + " is saved."
}

func lines(n int) string {
	if n == 1 {
		return "one line"
	}
	return fmt.Sprintf("%d lines", n)
}

// toldResult is what the model was told of a call, with what it had wanted.
type toldResult struct {
	model.ToolResult
	arguments string
}

// filename is what was to be saved.
func (t toldResult) filename() string {
	var in saveCSVIn
	if json.Unmarshal([]byte(t.arguments), &in) != nil {
		return ""
	}
	return in.Filename
}

// toldSince is what became of the calls since somebody last said something, by tool.
func toldSince(messages []model.Message) map[string][]toldResult {
	calls := map[string]*model.ToolCall{}
	told := map[string][]toldResult{}
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Text != nil && m.Role == model.User:
				clear(told)
			case p.Call != nil:
				calls[p.Call.ID] = p.Call
			case p.Result != nil:
				if wanted := calls[p.Result.CallID]; wanted != nil {
					told[wanted.Name] = append(told[wanted.Name], toldResult{*p.Result, wanted.Arguments})
				}
			}
		}
	}
	return told
}

func textOf(parts []model.Part) string {
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
