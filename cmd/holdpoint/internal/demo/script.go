package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Agent holds the demo's conversation and shows it on the terminal. The conversation itself is Holdpoint's: it goes on where it was
// when the demo is started again.
type Agent struct {
	URL  string // Holdpoint's
	Key  string
	Dash string            // the dashboard, for the hint
	Say  func(line string) // what happens, for the terminal
}

// task is what the agent is told to do.
const task = "File the invoices that wait in the inbox: save each of them, that is not there yet, as a CSV file on the drive, " +
	"named by its id and with all its lines. Then say what you did."

// talk is how the API shows a conversation.
type talk struct {
	ID   string `json:"id"`
	Loop struct {
		Status    string `json:"status"`
		LastSeq   int64  `json:"last_seq"`
		OpenCalls int    `json:"open_calls"`
	} `json:"loop"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// Run takes the last conversation up again, where that is not done, or begins one, and shows it until the agent is done or ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	api, err := client.New(client.Config{URL: a.URL, Token: a.Key})
	if err != nil {
		return err
	}
	held, after, err := a.open(ctx, api)
	if err != nil {
		return err
	}
	for _, tool := range held.Tools {
		if strings.Contains(tool.Name, "__") {
			a.Say("agent    sees the tool " + tool.Name)
		}
	}
	a.Say("agent    converses: " + a.Dash + "/conversations/" + held.ID)
	if held.Loop.OpenCalls > 0 {
		a.Say("agent    still waits for a call: decide at " + a.Dash)
	}
	err = api.Follow(ctx, client.Following{Conversation: held.ID, After: after, Told: a.tell})
	if errors.Is(err, errDone) {
		a.Say("agent    is done; Ctrl-C ends the demo")
		return nil
	}
	return err
}

// open finds the conversation, and from which entry on it is shown.
func (a *Agent) open(ctx context.Context, api *client.Client) (talk, int64, error) {
	var held talk
	text, err := api.Get(ctx, "conversations/latest", nil)
	if err == nil {
		err = json.Unmarshal(text, &held)
	}
	problem, refused := errors.AsType[*client.Problem](err)
	switch {
	case err == nil && held.Loop.Status != "idle":
		a.Say("agent    goes on where it was")
		return held, held.Loop.LastSeq, nil
	case err == nil || refused && problem.Status == 404:
	default:
		return held, 0, fmt.Errorf("find the conversation: %w", err)
	}
	held = talk{}
	if text, err = api.Post(ctx, "conversations", map[string]string{"message": task}); err == nil {
		err = json.Unmarshal(text, &held)
	}
	if err != nil {
		return held, 0, fmt.Errorf("begin the conversation: %w", err)
	}
	return held, 0, nil
}

// errDone: the agent has nothing more to do.
var errDone = errors.New("done")

// told is what is shown of an event.
type told struct {
	Status    string `json:"status"` // of the conversation
	Assistant *struct {
		Text  string `json:"text"`
		Calls []struct {
			CallID string `json:"call_id"`
			Name   string `json:"name"`
		} `json:"calls"`
	} `json:"assistant"`
	Tools *struct {
		Results []struct {
			IsError bool   `json:"is_error"`
			Text    string `json:"text"`
		} `json:"results"`
	} `json:"tools"`
	Call *struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"call"`
	Notice *struct {
		Text string `json:"text"`
	} `json:"notice"`
}

// tell shows one event.
func (a *Agent) tell(e client.TalkEvent) error {
	var t told
	if err := json.Unmarshal(e.Data, &t); err != nil {
		return fmt.Errorf("understand the conversation: %w", err)
	}
	switch {
	case e.Name == client.TalkState && t.Status == "idle":
		return errDone
	case t.Assistant != nil:
		if t.Assistant.Text != "" {
			a.Say("agent    says: " + plain.Line(t.Assistant.Text, maxLine))
		}
		for _, c := range t.Assistant.Calls {
			a.Say("agent    calls " + plain.Line(c.Name, maxLine) + lastDigits(c.CallID))
		}
	case t.Call != nil && t.Call.Status == "parked":
		a.Say("agent    lies down: its call" + lastDigits(t.Call.ID) + " waits for you at " + a.Dash)
	case t.Tools != nil:
		for _, r := range t.Tools.Results {
			if r.IsError {
				a.Say("agent    was told: " + plain.Line(r.Text, maxLine))
			}
		}
	case t.Notice != nil:
		a.Say("agent    " + plain.Line(t.Notice.Text, maxLine))
	}
	return nil
}

const maxLine = 400

// lastDigits are the end of an id: its beginning is the time.
func lastDigits(id string) string {
	if len(id) < 6 {
		return ""
	}
	return " …" + id[len(id)-6:]
}

// Ended reports whether the agent stopped because it was told to.
func Ended(err error) bool {
	return errors.Is(err, context.Canceled)
}
