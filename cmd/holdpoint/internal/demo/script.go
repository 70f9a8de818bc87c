package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Agent is the scripted agent: it reads the inbox and saves each invoice that
// was not saved yet, one at a time, waiting for a person each time.
type Agent struct {
	Endpoint string // the agent's MCP endpoint
	Key      string
	Version  string
	Skills   *Skills
	Dash     string            // the dashboard, for the hint
	Say      func(line string) // what happens, for the terminal
}

// callMeta is what Holdpoint says of a call in a result's _meta.
type callMeta struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Code     string `json:"code"`
	Attached bool   `json:"attached"`
}

// Run holds the conversation. It returns when all invoices are dealt with, or ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	session, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // the process is ending, or the server
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	for _, tool := range tools.Tools {
		a.Say("agent    sees the tool " + tool.Name)
	}
	invoices, err := a.readInbox(ctx, session)
	if err != nil {
		return err
	}
	for _, invoice := range invoices {
		saved, err := a.Skills.Saved()
		if err != nil {
			return err
		}
		if slices.Contains(saved, invoice.ID+".csv") {
			a.Say(fmt.Sprintf("agent    %s was saved before", invoice.ID))
			continue
		}
		if err := a.save(ctx, session, invoice); err != nil {
			return err
		}
	}
	a.Say("agent    is done; Ctrl-C ends the demo")
	return nil
}

func (a *Agent) connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-agent", Version: a.Version}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             a.Endpoint,
		HTTPClient:           &http.Client{Transport: bearer{a.Key}},
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", a.Endpoint, err)
	}
	return session, nil
}

// bearer adds the agent's key to every request.
type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

func (a *Agent) readInbox(ctx context.Context, session *mcp.ClientSession) ([]Invoice, error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: InboxSkill + "__list_invoices"})
	if err != nil {
		return nil, fmt.Errorf("list invoices: %w", err)
	}
	if result.IsError {
		return nil, fmt.Errorf("list invoices: %s", text(result))
	}
	encoded, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return nil, fmt.Errorf("list invoices: %w", err)
	}
	var out inboxOut
	if err := json.Unmarshal(encoded, &out); err != nil {
		return nil, fmt.Errorf("list invoices: %w", err)
	}
	a.Say(fmt.Sprintf("agent    called inbox: list_invoices, auto-approved: %d invoices", len(out.Invoices)))
	return out.Invoices, nil
}

// save makes the gated call and comes back for its outcome until there is one.
func (a *Agent) save(ctx context.Context, session *mcp.ClientSession, invoice Invoice) error {
	arguments, err := json.Marshal(saveCSVIn{Filename: invoice.ID, Rows: invoice.Rows})
	if err != nil {
		return fmt.Errorf("encode %s: %w", invoice.ID, err)
	}
	a.Say(fmt.Sprintf("agent    calls drive: save_csv %s: it waits for you at %s", invoice.ID, a.Dash))
	params := &mcp.CallToolParams{Name: DriveSkill + "__save_csv", Arguments: json.RawMessage(arguments)}
	for {
		result, err := session.CallTool(ctx, params)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			a.Say(fmt.Sprintf("agent    lost the connection (%v) and comes back", err))
			if !sleep(ctx, time.Second) {
				return ctx.Err()
			}
			continue
		}
		meta := metaOf(result)
		if meta.Status == "parked" || meta.Status == "approved" || meta.Status == "executing" {
			params = &mcp.CallToolParams{Name: "holdpoint_await", Arguments: map[string]string{"call_id": meta.ID}}
			continue
		}
		a.report(invoice, meta, result)
		return nil
	}
}

func (a *Agent) report(invoice Invoice, meta callMeta, result *mcp.CallToolResult) {
	if !result.IsError {
		a.Say(fmt.Sprintf("agent    %s: %s", invoice.ID, text(result)))
		return
	}
	a.Say(fmt.Sprintf("agent    %s was not saved (%s); it was told: %s", invoice.ID, meta.Status, text(result)))
}

func metaOf(result *mcp.CallToolResult) callMeta {
	var meta callMeta
	encoded, err := json.Marshal(result.Meta["dev.holdpoint/call"])
	if err == nil {
		err = json.Unmarshal(encoded, &meta)
	}
	if err != nil {
		return callMeta{}
	}
	return meta
}

func text(result *mcp.CallToolResult) string {
	for _, content := range result.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return "(no text)"
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Ended reports whether the agent stopped because it was told to.
func Ended(err error) bool {
	return errors.Is(err, context.Canceled)
}
