package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Agent shows the demo's conversation on the terminal. Holdpoint runs the conversation itself, so it continues when the
// demo is started again.
type Agent struct {
	URL  string // Holdpoint's
	Key  string
	Dash string            // URL of the dashboard
	Say  func(line string) // writes a line to the terminal
}

// task is the first message to the agent.
const task = "File the invoices in the inbox: save each one that is not on the drive yet as a CSV file there, " +
	"named by its id and with all its lines. Then report the result."

// Run continues the last conversation if it is not done, else starts one, and shows it until the agent is done or ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	api, err := client.New(client.Config{URL: a.URL, Token: a.Key})
	if err != nil {
		return err
	}
	held, after, err := a.openConversation(ctx, api)
	if err != nil {
		return err
	}
	for _, tool := range held.Tools {
		if strings.Contains(tool.Name, "__") {
			a.Say("agent    sees the tool " + tool.Name)
		}
	}
	a.Say("agent    conversation: " + a.Dash + "/conversations/" + held.ID)
	if held.Loop != nil && held.Loop.OpenCalls > 0 {
		a.Say("agent    waits for your decision at " + a.Dash)
	}
	err = api.Follow(ctx, client.Following{Conversation: held.ID, After: after, OnEvent: a.showEvent})
	if errors.Is(err, errDone) {
		a.Say("agent    is done; press Ctrl-C to end the demo")
		return nil
	}
	return err
}

// openConversation returns the conversation, and the entry after which it is shown.
func (a *Agent) openConversation(ctx context.Context, api *client.Client) (client.Conversation, int64, error) {
	held, err := client.Value(api.GetLatestConversation(ctx, client.GetLatestConversationQuery{}))
	problem, refused := errors.AsType[*client.Problem](err)
	switch {
	case err == nil && held.Loop != nil && held.Loop.Status != "idle":
		a.Say("agent    continues its last conversation")
		return held, held.Loop.LastSeq, nil
	case err == nil || refused && problem.Status == http.StatusNotFound:
	default:
		return held, 0, fmt.Errorf("find the conversation: %w", err)
	}
	if held, err = client.Value(api.CreateConversation(ctx, client.CreateConversationRequest{Message: new(task)})); err != nil {
		return held, 0, fmt.Errorf("start the conversation: %w", err)
	}
	return held, 0, nil
}

// errDone ends the following of an idle conversation.
var errDone = errors.New("done")

// showEvent shows one event of the conversation.
func (a *Agent) showEvent(e client.StreamEvent) error {
	var t struct {
		client.ConversationEntry
		Status string `json:"status"` // of the conversation
	}
	if err := json.Unmarshal(e.Data, &t); err != nil {
		return fmt.Errorf("decode an event of the conversation: %w", err)
	}
	switch {
	case e.Name == client.EventState && t.Status == "idle":
		return errDone
	case t.Assistant != nil:
		if t.Assistant.Text != "" {
			a.Say("agent    says: " + plain.Line(t.Assistant.Text, maxLine))
		}
		for _, c := range t.Assistant.Calls {
			a.Say("agent    calls " + plain.Line(c.Name, maxLine) + lastDigits(c.CallID))
		}
	case t.Call != nil && t.Call.Status == "parked":
		a.Say("agent    pauses: its call" + lastDigits(t.Call.ID) + " needs your approval at " + a.Dash)
	case t.Tools != nil:
		for _, r := range t.Tools.Results {
			if r.IsError {
				a.Say("agent    got an error: " + plain.Line(r.Text, maxLine))
			}
		}
	case t.Notice != nil:
		a.Say("agent    " + plain.Line(t.Notice.Text, maxLine))
	}
	return nil
}

const maxLine = 400

// lastDigits returns the end of an id, after a space. Ids of one moment have the same beginning.
func lastDigits(id string) string {
	if len(id) < 6 {
		return ""
	}
	return " …" + id[len(id)-6:]
}
