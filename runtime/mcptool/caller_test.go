package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// hearing records the notifications of a caller.
type hearing struct {
	mu    sync.Mutex
	texts []string
	over  bool // no more notifications may arrive
	late  bool
}

func (h *hearing) hear(params json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, string(params))
	h.late = h.late || h.over
}

func (h *hearing) end() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	return slices.Clone(h.texts)
}

func (h *hearing) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.texts)
}

// reportingServer is an SDK server with a tool that reports its progress and logs.
func reportingServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "reporting", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "report", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i, level := range []mcp.LoggingLevel{"debug", "info", "error"} { //nolint:staticcheck // deprecated by MCP, and in use
				if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: i}); err != nil { //nolint:staticcheck // as above
					return nil, err
				}
				if token := r.Params.GetProgressToken(); token != nil {
					err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3})
					if err != nil {
						return nil, err
					}
				}
			}
			return &mcp.CallToolResult{}, nil
		})
	return server
}

// TestCallerHearsOfProgress: progress arrives in order and before the call returns, in every era and over both
// transports.
func TestCallerHearsOfProgress(t *testing.T) {
	t.Parallel()
	for name, skill := range everyWay(reportingServer, "reporting") {
		if strings.HasSuffix(name, "JSON") { // a JSON response has no notifications
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := skill(t)
			s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
			var progress, logs hearing
			callFor(t, s, server, "report", `{}`, tool.Caller{Progress: progress.hear, LogLevel: "info", Log: logs.hear})
			want := []string{`{"progress":1,"total":3}`, `{"progress":2,"total":3}`, `{"progress":3,"total":3}`}
			if got := progress.end(); !slices.Equal(got, want) {
				t.Errorf("progress %v", got)
			}
			if got := logs.end(); len(got) != 2 || !strings.Contains(got[0], `"level":"info"`) || !strings.Contains(got[1], `"level":"error"`) {
				t.Errorf("logs %v", got)
			}
		})
	}
}

const progressNotification = `{"jsonrpc":"2.0","method":"notifications/progress","params":`

// tokenOf returns the progress token of a call, as JSON.
func tokenOf(t testing.TB, m message) string {
	t.Helper()
	var params struct {
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		t.Error(err)
	}
	return string(params.Meta.ProgressToken)
}

// TestProgressOfOthersIsNotHeard: progress of other calls is dropped, as is progress that is too large, too frequent or
// late.
func TestProgressOfOthersIsNotHeard(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var foreign, token string
			act := func(w http.ResponseWriter, _ *http.Request, m message) {
				foreign, token = token, tokenOf(t, m)
				write := startEvents(w)
				if foreign == "" || token == "" {
					write(formatEvent(answerText(m, complete)))
					return
				}
				for _, params := range []string{
					`{"progressToken":` + foreign + `,"progress":1}`, // of a call that has ended
					`{"progressToken":"x","progress":1}`,
					`{"progressToken":1,"progress":1}`,
					`{"progress":1}`,
					`[1]`,
					`{"progressToken":` + token + `,"progress":1,"message":"` + strings.Repeat("x", 20<<10) + `"}`,
					`{"progressToken":` + token + `,"progress":1,"progress":2}`,
				} {
					write(formatEvent(progressNotification + params + `}`))
				}
				for i := range 10_100 {
					write(formatEvent(fmt.Sprintf(`%s{"progressToken":%s, "progress": %d.50 }}`, progressNotification, token, i)))
				}
				write(formatEvent(answerText(m, complete)) + formatEvent(progressNotification+`{"progressToken":`+token+`,"progress":99}}`))
			}
			upstream := &script{at: map[string]func(http.ResponseWriter, *http.Request, message){"tools/call": act}}
			if version == "2026-07-28" {
				upstream = newModernServer(act)
			}
			s := newSource(t, mcptool.Config{})
			skill := httpSkill(upstream.serve(t).URL)
			var first, second hearing
			callFor(t, s, skill, "echo", `{}`, tool.Caller{Progress: first.hear})
			first.end()
			callFor(t, s, skill, "echo", `{}`, tool.Caller{Progress: second.hear})
			got := second.end()
			if len(got) != 10_000 || got[0] != `{"progress":0.50}` || got[9_999] != `{"progress":9999.50}` || first.count() != 0 {
				t.Errorf("%d notifications, first %.200s; earlier call: %v", len(got), got[:min(len(got), 1)], first.texts)
			}
			callTool(t, s, skill, "echo", `{}`)
			if got := tokenOf(t, upstream.lastRequest("tools/call")); got != "" {
				t.Errorf("progress token %s of a call without progress", got)
			}
			if first.late || second.late {
				t.Error("a notification arrived after the call ended")
			}
		})
	}
}

// TestLogLevels: the session has the lowest level of all callers, each caller gets messages of its own level, and
// messages outside the call's stream are dropped.
func TestLogLevels(t *testing.T) {
	t.Parallel()
	message1 := func(level string) string {
		return formatEvent(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":1e400}}`)
	}
	upstream := &script{session: "s1"}
	upstream.at = map[string]act{
		"initialize": func(w http.ResponseWriter, _ *http.Request, m message) {
			writeAnswer(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"script","version":"1"}}`)
		},
		"logging/setLevel": func(w http.ResponseWriter, _ *http.Request, m message) { writeAnswer(w, m, `{}`) },
		"GET": func(w http.ResponseWriter, r *http.Request, m message) {
			startEvents(w)(message1("emergency"))
			waitForClient(w, r, m)
		},
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
			write := startEvents(w)
			for _, level := range []string{"debug", "warning", "error", "no such level"} {
				write(message1(level))
			}
			write(formatEvent(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"` + strings.Repeat("x", 300<<10) + `"}}`))
			write(formatEvent(answerText(m, `{"content":[]}`)))
		},
	}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	hears := func(level string, want int) {
		t.Helper()
		var logs hearing
		callFor(t, s, skill, "echo", `{}`, tool.Caller{LogLevel: level, Log: logs.hear})
		if got := logs.end(); len(got) != want || !strings.Contains(got[0], `"data":1e400`) {
			t.Errorf("at %s: %v", level, got)
		}
	}
	hears("error", 1)
	hears("debug", 3)
	hears("warning", 2)
	callTool(t, s, skill, "echo", `{}`)
	var levels []string
	for _, m := range upstream.listRequests("logging/setLevel") {
		levels = append(levels, string(m.Params))
	}
	if !slices.Equal(levels, []string{`{"level":"error"}`, `{"level":"debug"}`}) {
		t.Errorf("requested levels: %v", levels)
	}
}

func TestCallerThatIsNotOne(t *testing.T) {
	t.Parallel()
	upstream := newModernServer(answerInTurn(complete))
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	for name, caller := range map[string]tool.Caller{
		"log level": {LogLevel: "loud"},
		"other":     {Capabilities: json.RawMessage(`{"extensions":{}}`), Ask: refuseQuestions(t).Ask},
		"no object": {Capabilities: json.RawMessage(`{"roots":true}`), Ask: refuseQuestions(t).Ask},
		"twice":     {Capabilities: json.RawMessage(`{"roots":{},"roots":{}}`), Ask: refuseQuestions(t).Ask},
	} {
		f := failCallFor(t.Context(), t, s, skill, caller)
		if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone {
			t.Errorf("%s: got %s, effect %s: %s", name, f.Kind, f.Effect, f.Message)
		}
	}
	if n := upstream.countRequests("tools/call"); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestTimeStandsStillWhileSomebodyIsAsked: the time of a question does not count against the call's timeout. Afterwards
// a silent server still makes the call time out.
func TestTimeStandsStillWhileSomebodyIsAsked(t *testing.T) {
	t.Parallel()
	const limit = 8 * time.Second // longer than the rest of the call on any machine
	silent := func(w http.ResponseWriter, r *http.Request, m message) {
		if strings.Contains(string(m.Params), "inputResponses") {
			waitForClient(w, r, m)
			return
		}
		writeAnswer(w, m, inputRequired(`"q":`+formatInputRequest(`{}`), ""))
	}
	legacy, _ := newAsker(formatQuestion("1", `{}`))
	for name, test := range map[string]struct {
		upstream *script
		ends     bool
	}{
		"2025-11-25": {legacy, true},
		"2026-07-28": {newModernServer(answerInTurn(inputRequired(`"q":`+formatInputRequest(`{}`), ""), complete)), true},
		"silent":     {newModernServer(silent), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, mcptool.Config{})
			skill := httpSkill(test.upstream.serve(t).URL)
			_, err := s.Capabilities(t.Context(), skill) // connects
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo", Timeout: limit, Caller: acceptQuestions(func(ctx context.Context, _ tool.Question) (json.RawMessage, error) {
				timer := time.NewTimer(limit + limit/2) // the person takes longer than the limit
				defer timer.Stop()
				select {
				case <-timer.C:
					return json.RawMessage(accepted), nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})})
			switch {
			case test.ends && err != nil:
				t.Error(err)
			case !test.ends && !errors.Is(asFailure(t, err), context.DeadlineExceeded):
				t.Errorf("got %v", err)
			}
		})
	}
}
