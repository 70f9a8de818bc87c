package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/limit"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// fakeGate answers questions about gate-only calls.
type fakeGate struct {
	mu       sync.Mutex
	passage  call.Passage
	err      error
	asked    []call.Submission
	reports  []string
	named    map[call.HostCall]uuid.UUID
	waitEnds func(context.Context) // called with the time that a question may wait; nil: it does not wait
}

func (f *fakeGate) answer(ctx, wait context.Context) (call.Passage, error) {
	f.mu.Lock()
	waitEnds := f.waitEnds
	f.mu.Unlock()
	if waitEnds != nil {
		waitEnds(wait)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passage, errors.Join(f.err, ctx.Err())
}

func (f *fakeGate) Gate(ctx, wait context.Context, sub call.Submission) (call.Passage, error) {
	f.mu.Lock()
	f.asked = append(f.asked, sub)
	f.mu.Unlock()
	return f.answer(ctx, wait)
}

func (f *fakeGate) AwaitPassage(ctx, wait context.Context, _ call.Viewer, _ uuid.UUID, _ string) (call.Passage, error) {
	return f.answer(ctx, wait)
}

func (f *fakeGate) ReportOutcome(_ context.Context, _ call.Viewer, id uuid.UUID, name string, r call.Report) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, fmt.Sprintf("%s %s %s %s", id, name, r.Outcome, r.Text))
	return f.err
}

func (f *fakeGate) NameHostCall(_ context.Context, _ call.Viewer, id uuid.UUID, h call.HostCall) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.named == nil {
		f.named = map[call.HostCall]uuid.UUID{}
	}
	f.named[h] = id
	return f.err
}

func (f *fakeGate) ReportHostCall(ctx context.Context, viewer call.Viewer, h call.HostCall, r call.Report) error {
	f.mu.Lock()
	id, ok := f.named[h]
	f.mu.Unlock()
	if !ok {
		return call.ErrNotFound
	}
	return f.ReportOutcome(ctx, viewer, id, "", r)
}

func (f *fakeGate) LeaveGate(_ context.Context, _ call.Viewer, id uuid.UUID, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, fmt.Sprintf("%s %s left", id, name))
	return f.err
}

func (f *fakeGate) ReadGateTask(context.Context, call.Viewer, uuid.UUID) (*call.GateTask, error) {
	return nil, call.ErrNotFound
}

func (f *fakeGate) NameGateRequest(context.Context, *call.Submission, uuid.UUID) error { return f.err }

// IsReleased knows one call.
func (f *fakeGate) IsReleased(_ context.Context, _ call.Viewer, skill, tool string, arguments json.RawMessage) (bool, error) {
	return skill == "laptop" && tool == "Bash" && string(arguments) == `{"command":"released"}`, nil
}

// FindGated knows the skill laptop with the tool Bash.
func (f *fakeAgents) FindGated(_ context.Context, _ uuid.UUID, skill, name string) (*catalog.Entry, error) {
	if skill != "laptop" {
		return nil, fmt.Errorf("skill %s: %w", skill, agent.ErrNotFound)
	}
	if name == "" {
		return nil, tool.ErrToolName
	}
	return &catalog.Entry{Name: "laptop__" + name, Skill: "laptop"}, nil
}

// gate sends a request to the gate of billing.
func (b *bench) gate(method, path, body string, headers ...string) answer {
	b.t.Helper()
	r := b.newRequest(context.Background(), body, headers...)
	r.Method = method
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut("/agents/billing/gate"+path, "?")
	return b.sendRequest(r)
}

const bashBody = `{"skill":"laptop","tool":"Bash","arguments":{"command":"ls","n":1.0},"request_id":"toolu_1","wait":5,` +
	`"context":{"host":"claude-code","session_id":"s","cwd":"/w","paths":["/w/a"],"file":{"path":"/w/a","exists":true,"size":2,"text":"hi"},"subagent":"a","version":"2","new":1},"more":true}`

func TestGateAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.New()
	until := time.Date(2026, 11, 26, 12, 0, 0, 0, time.FixedZone("", 3600))
	for _, tc := range []struct {
		passage call.Passage
		want    string
	}{
		{
			call.Passage{ID: id, Allowed: true, Code: "released", Message: "go", ReleasedUntil: until},
			`{"id":"` + id.String() + `","decision":"allow","code":"released","message":"go","released_until":"2026-11-26T11:00:00Z"}`,
		},
		{
			call.Passage{ID: id, Pending: true, Code: "pending", Message: "wait", Deadline: until},
			`{"id":"` + id.String() + `","decision":"pending","code":"pending","message":"wait","deadline":"2026-11-26T11:00:00Z"}`,
		},
		{
			call.Passage{ID: id, Code: "rejected", Message: "no", Final: true},
			`{"id":"` + id.String() + `","decision":"deny","code":"rejected","message":"no"}`,
		},
		{call.Passage{ID: id}, `{"id":"` + id.String() + `","decision":"deny","code":"","message":""}`},
	} {
		b.calls.passage = tc.passage
		for _, a := range []answer{b.gate("POST", "", bashBody), b.gate("GET", "/"+id.String()+"?wait=3&request_id=toolu_1", "")} {
			if a.status != http.StatusOK || a.body != tc.want || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s, want %s", a.status, a.body, tc.want)
			}
		}
	}
	if got := b.calls.deliveries(); len(got) != 2 || got[0] != id { // of the rejected one, twice
		t.Errorf("delivered: %v", got)
	}
	sub := b.calls.asked[0]
	text := "hi"
	binding := call.GateBinding{Directory: "/w", Paths: []string{"/w/a"}, File: &call.GateFile{Path: "/w/a", Exists: true, Size: 2, Text: &text}}
	want := call.GateRequest{Name: "toolu_1", GateBinding: binding, GateOrigin: call.GateOrigin{Host: "claude-code", Session: "s", Subagent: "a", Version: "2"}}
	if !reflect.DeepEqual(*sub.Gate, want) || string(sub.Arguments) != `{"command":"ls","n":1.0}` || sub.Agent.Name != "billing" {
		t.Errorf("submitted: %+v %+v %s", sub, sub.Gate, sub.Arguments)
	}
}

func TestGateProblems(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.NewString()
	ask := func(change string) answer {
		return b.gate("POST", "", strings.Replace(bashBody, `"wait":5`, change, 1))
	}
	for name, tc := range map[string]struct {
		answer answer
		status int
		code   string
		says   string
	}{
		"no JSON":        {b.gate("POST", "", "{"), 400, "invalid_request", "the body: must be a JSON object"},
		"two members":    {ask(`"wait":5,"wait":6`), 400, "invalid_request", "the body"},
		"long wait":      {ask(`"wait":56`), 422, "invalid_request", "wait: must be between 0 and 55 seconds"},
		"wait of a GET":  {b.gate("GET", "/"+id+"?wait=soon", ""), 422, "invalid_request", "wait: must be"},
		"long name":      {ask(`"request_id":"` + strings.Repeat("x", 600) + `","was":""`), 400, "invalid_request", "request_id"},
		"arguments":      {b.gate("POST", "", `{"skill":"laptop","tool":"Bash","arguments":[1]}`), 422, "invalid_request", "arguments"},
		"no skill":       {b.gate("POST", "", `{"skill":"files","tool":"Bash"}`), 404, "not_found", "skill and tool: must be"},
		"no tool":        {b.gate("POST", "", `{"skill":"laptop"}`), 422, "invalid_request", "tool: must be"},
		"no call":        {b.gate("GET", "/nothing", ""), 404, "not_found", "no such call"},
		"outcome":        {b.gate("POST", "/"+id+"/outcome", `{"status":"done"}`), 422, "invalid_request", "status: must be succeeded, failed or not_run"},
		"large outcome":  {b.gate("POST", "/"+id+"/outcome", `{"text":"`+strings.Repeat("x", 65<<10)+`"}`), 413, "invalid_request", "65536 bytes"},
		"media type":     {b.gate("POST", "", bashBody, "Content-Type", "text/plain"), 415, "invalid_request", "Content-Type"},
		"no credential":  {b.gate("POST", "", bashBody, "Authorization", ""), 401, "", ""},
		"other agent":    {b.gate("POST", "", bashBody, "Authorization", "Bearer key-other"), 401, "", ""},
		"page of a site": {b.gate("POST", "", bashBody, "Origin", "https://evil.example"), 403, "", ""},
		"paths":          {b.gate("POST", "", `{"context":{"paths":["/w",""]}}`), 422, "invalid_request", "context.paths[1]: must be 1 to 4096 bytes"},
		"many paths":     {b.gate("POST", "", `{"context":{"paths":[`+strings.Repeat(`"/w",`, 64)+`"/w"]}}`), 422, "invalid_request", "context.paths: must have at most 64 paths"},
		"no path":        {b.gate("POST", "", `{"context":{"file":{"exists":true}}}`), 422, "invalid_request", "context.file.path: must be 1 to"},
		"no file":        {b.gate("POST", "", `{"context":{"file":{"path":"/w/a","size":1}}}`), 422, "invalid_request", "context.file.exists: must be true"},
		"part of a file": {b.gate("POST", "", `{"context":{"file":{"path":"/w/a","exists":true,"size":9,"text":"hi"}}}`), 422, "invalid_request", "context.file.text: must be the whole file"},
		"large file":     {b.gate("POST", "", `{"context":{"file":{"path":"/w/a","exists":true,"size":65537,"text":"`+strings.Repeat("x", 65537)+`"}}}`), 422, "invalid_request", "context.file.text: must be the whole file"},
		"digest":         {b.gate("POST", "", `{"context":{"file":{"path":"/w/a","exists":true,"size":9,"sha256":"x"}}}`), 422, "invalid_request", "context.file.sha256: must be a SHA-256"},
	} {
		a := tc.answer
		if a.status != tc.status || !strings.Contains(a.body, tc.code) || !strings.Contains(a.body, tc.says) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if media := a.header.Get("Content-Type"); tc.code != "" && media != "application/problem+json" {
			t.Errorf("%s: %s", name, media)
		}
	}
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{call.ErrKeyReused, 409, "key_reused"},
		{call.ErrNotReleased, 409, "not_released"},
		{call.ErrNotFound, 404, "not_found"},
		{&call.PendingError{Waiting: 5, Limit: 5}, 429, "pending_limited"},
		{errors.New("secret of the database"), 500, "internal"},
	} {
		b.calls.err = fmt.Errorf("context: %w", tc.err)
		for _, a := range []answer{b.gate("POST", "", bashBody), b.gate("POST", "/"+id+"/outcome", `{"status":"failed"}`)} {
			if a.status != tc.status || memberAt(decodeJSON(t, a.body), "code") != tc.code || strings.Contains(a.body, "secret") || strings.Contains(a.body, "decision") {
				t.Errorf("%v: %d %s", tc.err, a.status, a.body)
			}
		}
	}
}

func TestGateReports(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.NewString()
	for _, a := range []answer{
		b.gate("POST", "/"+id+"/outcome", `{"request_id":"r","status":"failed","text":"exit 1"}`),
		b.gate("POST", "/"+id+"/leave", `{"request_id":"r"}`),
	} {
		if a.status != http.StatusNoContent {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if got := strings.Join(b.calls.reports, ", "); got != id+" r failed exit 1, "+id+" r left" {
		t.Errorf("reported: %s", got)
	}
}

// TestGateLimits: a question counts against the agent's limits, and a panic allows nothing.
func TestGateLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agents.agents["billing"].Limits = agent.Limits{CallsPerMinute: 60}
	var during int
	b.calls.waitEnds = func(context.Context) { _, during = b.limits.countRequests() }
	b.gate("POST", "", bashBody)
	if _, open := b.limits.countRequests(); during != 1 || open != 0 {
		t.Errorf("%d requests counted while it waited, %d after it", during, open)
	}
	b.limits.err = &limit.Exceeded{Kind: limit.Rate, Limit: 60, RetryAfter: 1500 * time.Millisecond}
	a := b.gate("POST", "", bashBody)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "2" || memberAt(decodeJSON(t, a.body), "code") != "rate_limited" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	b.limits.err = nil
	b.calls.waitEnds = func(context.Context) { panic("broken") }
	if a = b.gate("POST", "", bashBody); a.status != http.StatusInternalServerError || memberAt(decodeJSON(t, a.body), "code") != "internal" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestGateDrains: a process that stops ends the waits of questions.
func TestGateDrains(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.passage = call.Passage{ID: uuid.New(), Pending: true}
	b.calls.waitEnds = func(wait context.Context) {
		go b.server.Drain()
		<-wait.Done()
	}
	if a := b.gate("POST", "", strings.Replace(bashBody, `"wait":5`, `"wait":55`, 1)); !strings.Contains(a.body, `"decision":"pending"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
