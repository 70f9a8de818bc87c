package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// askedQuestion is a question of the API.
type askedQuestion struct {
	Number   int                 `json:"number"`
	Status   string              `json:"status"`
	Answer   json.RawMessage     `json:"answer"`
	Digest   string              `json:"digest"`
	Decision *holdpoint.Decision `json:"decision"`
}

// arrival is an answer that reached the eliciting server, with its question as committed at that moment.
type arrival struct {
	action  string
	content map[string]any
	stored  askedQuestion
	err     error
}

// eliciting is a skill's server that asks for an account before it acts, and records the answers.
type eliciting struct {
	URL      string
	arrivals chan arrival
	// look reads the committed question.
	look atomic.Pointer[func() (askedQuestion, error)]
}

func newEliciting(t *testing.T, options *mcp.StreamableHTTPOptions) *eliciting {
	t.Helper()
	s := &eliciting{arrivals: make(chan arrival, 10)}
	server := mcp.NewServer(&mcp.Implementation{Name: "eliciting", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{
		Name: "record", Description: "Pays.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
	}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["account"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{"account": &mcp.ElicitParams{
				Mode: "form", Message: "To which account?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"iban":{"type":"string"}}}`),
			}}}, nil
		}
		a := arrival{action: answer.Action, content: answer.Content}
		a.stored, a.err = (*s.look.Load())()
		s.arrivals <- a
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s %v", answer.Action, answer.Content["iban"])}}}, nil
	})
	there := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		there.CloseClientConnections()
		there.Close()
	})
	s.URL = there.URL
	return s
}

// TestElicitingServer: in both eras, a client's answer reaches the server of an approved call only after the decision
// about it was committed, and never after a rejection.
func TestElicitingServer(t *testing.T) {
	t.Parallel()
	for era, options := range map[string]*mcp.StreamableHTTPOptions{"2025-11-25": {}, "2026-07-28": {Stateless: true}} {
		for _, verb := range []string{"approve", "reject"} {
			t.Run(era+" "+verb, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				server := newEliciting(t, options)
				p := w.startServer()
				w.applyManifest(p, strings.Replace(oneSkill(server.URL, ""), "wait_budget: 2s", "wait_budget: 2m", 1))
				decideOnElicitation(t, w, p, server, verb)
			})
		}
	}
}

func decideOnElicitation(t *testing.T, w *world, p *holdpoint.Process, server *eliciting, verb string) {
	t.Helper()
	asked := make(chan string, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- r.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"iban": "DE02-attacker"}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: p.URL + "/agents/worker/mcp", HTTPClient: &http.Client{Transport: withKey{w.newAgent(p, "worker").Key}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	done := make(chan string, 1)
	go func() {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "counting__record", Arguments: map[string]int{"n": 1}})
		text, _ := json.Marshal(result)
		done <- fmt.Sprint(string(text), " ", err)
	}()
	waiting, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	question := func() (askedQuestion, error) {
		var found struct {
			Questions []askedQuestion `json:"questions"`
		}
		err := operatorAPI(p).Do(t.Context(), http.MethodGet, "approvals/"+waiting.ID, nil, &found)
		if err == nil && len(found.Questions) != 1 {
			err = fmt.Errorf("%d questions", len(found.Questions))
		}
		if err != nil {
			return askedQuestion{}, err
		}
		return found.Questions[0], nil
	}
	server.look.Store(&question)
	if err := operatorAPI(p).Approve(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	if message := <-asked; message != "To which account?" {
		t.Errorf("the client was asked %q", message)
	}
	var shown askedQuestion
	eventually.Succeeds(t, patience, "a question that waits for a reviewer", func() error {
		var err error
		if shown, err = question(); err == nil && shown.Status != "pending" {
			err = fmt.Errorf("it is %s", shown.Status)
		}
		return err
	})
	if !strings.Contains(string(shown.Answer), "DE02-attacker") {
		t.Errorf("the reviewer is shown the answer %s", shown.Answer)
	}
	text := newCLI(p, bootstrapToken).Must(t, "approvals", "show", waiting.ID)
	if !strings.Contains(text, "To which account?") || !strings.Contains(text, "DE02-attacker") || !strings.Contains(text, shown.Digest) {
		t.Errorf("the command line shows %s", text)
	}
	select {
	case a := <-server.arrivals:
		t.Fatalf("an answer reached the server before the decision: %+v", a)
	default:
	}
	newCLI(p, bootstrapToken).Must(t, "approvals", verb, waiting.ID, "--question", "1", "--digest", shown.Digest)
	a := <-server.arrivals
	if a.err != nil || a.stored.Decision == nil {
		t.Fatalf("an answer reached the server before the decision was committed: %+v (%v)", a.stored, a.err)
	}
	outcome := <-done
	switch verb {
	case "approve":
		if a.stored.Decision.Outcome != "approved" || a.action != "accept" || a.content["iban"] != "DE02-attacker" || !strings.Contains(outcome, "accept DE02-attacker") {
			t.Errorf("approved, the server got %+v; the call ended with %s", a, outcome)
		}
	case "reject":
		if a.stored.Decision.Outcome != "rejected" || a.action != "decline" || len(a.content) != 0 || strings.Contains(outcome, "DE02") {
			t.Errorf("rejected, the server got %+v; the call ended with %s", a, outcome)
		}
	}
}
