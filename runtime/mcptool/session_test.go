package mcptool_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// gate blocks a method until it is opened.
type gate struct {
	reached chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) before(next act) act {
	return func(w http.ResponseWriter, r *http.Request, m message) {
		g.reached <- struct{}{}
		select {
		case <-g.open:
			next(w, r, m)
		case <-r.Context().Done():
		}
	}
}

func TestWaitersShareOneConnectionAttempt(t *testing.T) {
	t.Parallel()
	g := newGate()
	upstream := &script{session: "s1"}
	upstream.at = map[string]act{"initialize": g.before(func(w http.ResponseWriter, _ *http.Request, m message) { upstream.standard(w, m) })}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)

	first, leave := context.WithCancel(t.Context())
	gone := make(chan *tool.Failure, 1)
	go func() { gone <- failCall(first, t, s, skill) }()
	<-g.reached
	var others sync.WaitGroup
	for range 20 {
		others.Go(func() {
			if _, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo"}); err != nil {
				t.Error(err)
			}
		})
	}
	leave() // the first caller stops waiting
	if f := <-gone; f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	close(g.open)
	others.Wait()
	if n := upstream.countRequests("initialize"); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestForgetEndsTheSessionAfterItsCalls(t *testing.T) {
	t.Parallel()
	g := newGate()
	upstream := &script{session: "s1"}
	upstream.at = map[string]act{"tools/call": g.before(func(w http.ResponseWriter, _ *http.Request, m message) { upstream.standard(w, m) })}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	result := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo"})
		result <- err
	}()
	<-g.reached
	s.Forget(skill.SkillID)
	if n := upstream.countRequests("DELETE"); n != 0 {
		t.Error("the session ended during a call")
	}
	close(g.open)
	if err := <-result; err != nil {
		t.Error(err)
	}
	eventually.Holds(t, "the session is ended", func() bool { return upstream.countRequests("DELETE") == 1 })
	callTool(t, s, skill, "echo", `{}`) // the skill can be used again
	if n := upstream.countRequests("initialize"); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestHigherRevisionReplacesTheSession(t *testing.T) {
	t.Parallel()
	older, newer := &script{session: "s1"}, &script{session: "s2"}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(older.serve(t).URL)
	callTool(t, s, skill, "echo", `{}`)
	changed := skill
	changed.Revision, changed.URL = 2, newer.serve(t).URL
	callTool(t, s, changed, "echo", `{}`)
	eventually.Holds(t, "the older session is ended", func() bool { return older.countRequests("DELETE") == 1 })
	f := failCall(t.Context(), t, s, skill)
	if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "revision 1") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	if n := older.countRequests("tools/call"); n != 1 {
		t.Errorf("%d calls at the older revision", n)
	}
}

func TestCloseEndsSessions(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	s := mcptool.New(mcptool.Config{})
	callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	if err := s.Close(withTimeout(t, 20*time.Second)); err != nil {
		t.Error(err)
	}
	if n := upstream.countRequests("DELETE"); n != 1 {
		t.Errorf("%d sessions ended", n)
	}
}

// TestCloseWithoutTime: Close waits neither for a silent server nor for a child that does not exit.
func TestCloseWithoutTime(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1", at: map[string]act{"DELETE": waitForClient}}
	dir := t.TempDir()
	letPass(t, dir)
	s := mcptool.New(mcptool.Config{DataDir: dir, Stdio: anyCommand, Limits: mcptool.Limits{Stop: time.Hour}})
	callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	child := aboutChild(t, s, childSkill(t, "stubborn")).PID
	_ = s.Close(withTimeout(t, 200*time.Millisecond)) // an error is possible but not certain
	eventually.Holds(t, "the child is gone", func() bool { return !isAlive(child) })
}

func TestCloseEndsCallsThatAreOnTheirWay(t *testing.T) {
	t.Parallel()
	g := newGate()
	upstream := &script{session: "s1", at: map[string]act{"tools/call": g.before(waitForClient)}}
	s := mcptool.New(mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	failure := make(chan *tool.Failure, 1)
	go func() { failure <- failCall(t.Context(), t, s, skill) }()
	<-g.reached
	if err := s.Close(withTimeout(t, 20*time.Second)); err != nil {
		t.Error(err)
	}
	if f := <-failure; f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	if n := upstream.countRequests("DELETE"); n != 1 {
		t.Errorf("%d sessions ended", n)
	}
	if f := failCall(t.Context(), t, s, skill); f.Effect != tool.EffectNone {
		t.Errorf("after Close: %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

// TestSessionIsRenewedForTheNextCall: if a server reports a lost session with a status other than 404, the next call
// opens a new one. The failed call is not repeated.
func TestSessionIsRenewedForTheNextCall(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	s := newSource(t, mcptool.Config{})
	skill := httpSkill(upstream.serve(t).URL)
	callTool(t, s, skill, "echo", `{}`)
	upstream.mu.Lock()
	upstream.at = map[string]act{"tools/call": rpcError(400, -32000, "Bad Request: No valid session ID provided")}
	upstream.mu.Unlock()
	if f := failCall(t.Context(), t, s, skill); f.Kind != tool.JSONRPCError || f.Effect != tool.EffectNone {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
	if n := upstream.countRequests("tools/call"); n != 2 {
		t.Errorf("%d calls arrived", n)
	}
	upstream.mu.Lock()
	upstream.at = nil
	upstream.mu.Unlock()
	callTool(t, s, skill, "echo", `{}`)
	if n := upstream.countRequests("initialize"); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestEraIsRemembered(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	lose := true
	upstream.at = map[string]act{"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
		if lose { // calls arrive one at a time
			lose = false
			w.WriteHeader(http.StatusNotFound)
			return
		}
		upstream.standard(w, m)
	}}
	s := newSource(t, mcptool.Config{})
	callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	if asked, sessions := upstream.countRequests("server/discover"), upstream.countRequests("initialize"); asked != 1 || sessions != 2 {
		t.Errorf("asked %d times, %d sessions", asked, sessions)
	}
}

func TestProbeNamesItsSteps(t *testing.T) {
	t.Parallel()
	steps := func(s *mcptool.Source, skill tool.Server) (names []string, last tool.Step, err error) {
		err = s.Probe(t.Context(), skill, func(step tool.Step) {
			if step.Took < 0 {
				t.Errorf("step %s took %s", step.Name, step.Took)
			}
			names, last = append(names, step.Name), step
		})
		return names, last, err
	}
	patient := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	hasty := newSource(t, mcptool.Config{Limits: mcptool.Limits{Connect: 8 * time.Second}})
	options := listEras()
	tests := map[string]struct {
		skill tool.Server
		steps string
		fails bool
	}{
		"2025":             {httpSkill(serve(t, echoServer(), options["2025-11-25 SSE"]).URL), "connect discover initialize tools/list", false},
		"2026":             {httpSkill(serve(t, echoServer(), options["2026-07-28 SSE"]).URL), "connect discover tools/list", false},
		"stdio 2025":       {childSkill(t, "mirror"), "connect discover initialize tools/list", false},
		"stdio 2026":       {childSkill(t, "echo"), "connect discover tools/list", false},
		"refused":          {httpSkill("http://127.0.0.1:1/"), "connect", true},
		"no URL":           {httpSkill("x"), "connect", true},
		"no program":       {tool.Server{Transport: tool.Stdio, Command: []string{"no-such-program"}}, "connect", true},
		"initialize hangs": {httpSkill((&script{at: map[string]act{"initialize": waitForClient}}).serve(t).URL), "connect discover initialize", true},
		"list fails":       {httpSkill((&script{at: map[string]act{"tools/list": answerStatus(500, "", "")}}).serve(t).URL), "connect discover initialize tools/list", true},
	}
	for name, test := range tests {
		s := patient
		if name == "initialize hangs" {
			s = hasty
		}
		names, last, err := steps(s, test.skill)
		if got := strings.Join(names, " "); got != test.steps {
			t.Errorf("%s: steps %s, want %s", name, got, test.steps)
		}
		if (err != nil) != test.fails || (last.Err != nil) != test.fails {
			t.Errorf("%s: %v, last step %+v", name, err, last)
		}
		if !test.fails && last.Detail != "1 tools" {
			t.Errorf("%s: %+v", name, last)
		}
	}
}
