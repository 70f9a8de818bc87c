package mcptool_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// personalSkill returns a skill to which each person connects separately.
func personalSkill(url string, principal uuid.UUID) tool.Server {
	skill := httpSkill(url)
	skill.PerUser = true
	return skill.For(principal)
}

// TestIdleSessionsOfPeopleEnd: idle sessions of single people end, shared ones do not. The next call opens a new
// session.
func TestIdleSessionsOfPeopleEnd(t *testing.T) {
	t.Parallel()
	upstream, shared := &script{session: "s1"}, &script{session: "s2"}
	source := newSource(t, mcptool.Config{Limits: mcptool.Limits{SessionIdle: 100 * time.Millisecond}})
	all := httpSkill(shared.serve(t).URL)
	callTool(t, source, all, "echo", `{}`)
	alice := personalSkill(upstream.serve(t).URL, uuid.New())
	bob := alice.For(uuid.New())
	for _, skill := range []tool.Server{alice, bob} {
		callTool(t, source, skill, "echo", `{}`)
	}
	ended := func() bool { return upstream.countRequests("DELETE") == upstream.countRequests("initialize") }
	eventually.Holds(t, "both sessions are ended", ended)
	made := upstream.countRequests("initialize")
	callTool(t, source, alice, "echo", `{}`)
	if n := upstream.countRequests("initialize"); made < 2 || n <= made {
		t.Errorf("%d sessions, %d before the pause; want one more, for alice", n, made)
	}
	eventually.Holds(t, "the new session is ended", ended)
	if n := shared.countRequests("DELETE"); n != 0 {
		t.Error("the shared session was ended")
	}
}

// TestSessionsInUseStay: a session in use does not end, however long the use takes.
func TestSessionsInUseStay(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(finish) })
	upstream := &script{session: "s1", at: map[string]act{"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) {
		close(arrived)
		<-finish
		writeAnswer(w, m, `{"content":[]}`)
	}}}
	idle := &script{session: "s2"}
	limits := mcptool.Limits{SessionIdle: 50 * time.Millisecond}
	source := newSource(t, mcptool.Config{Limits: limits})
	skill, other := personalSkill(upstream.serve(t).URL, uuid.New()), personalSkill(idle.serve(t).URL, uuid.New())
	t.Cleanup(release) // before the servers close, which wait for it
	done := make(chan struct{})
	go func() {
		defer close(done)
		callTool(t, source, skill, "echo", `{}`)
	}()
	<-arrived
	for range 3 {
		ended := idle.countRequests("DELETE")
		callTool(t, source, other, "echo", `{}`)
		eventually.Holds(t, "an idle session is ended", func() bool { return idle.countRequests("DELETE") > ended })
	}
	if n := upstream.countRequests("DELETE"); n != 0 {
		t.Error("a session was ended during a call")
	}
	release()
	<-done
	eventually.Holds(t, "it is ended afterwards", func() bool { return upstream.countRequests("DELETE") == 1 })
}

// TestSessionsOfPeopleAreFew: beyond the limit, the least recently used session ends.
func TestSessionsOfPeopleAreFew(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	source := newSource(t, mcptool.Config{Limits: mcptool.Limits{Sessions: 2}})
	first := personalSkill(upstream.serve(t).URL, uuid.New())
	for i := range 5 {
		callTool(t, source, first.For(uuid.New()), "echo", `{}`)
		if i >= 2 {
			eventually.Holds(t, "one session is ended", func() bool { return upstream.countRequests("DELETE") == i-1 })
		}
	}
}

// TestIdleSharedSessionsEnd: sessions and children that all people share end when nobody has used them for long, many of them at once. The next call
// starts them again.
func TestIdleSharedSessionsEnd(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	url := upstream.serve(t).URL
	source := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{SharedIdle: 200 * time.Millisecond}})
	const skills = 500
	for range skills {
		callTool(t, source, httpSkill(url), "echo", `{}`)
	}
	eventually.Holds(t, "all sessions are ended", func() bool {
		return upstream.countRequests("DELETE") == upstream.countRequests("initialize") && upstream.countRequests("DELETE") >= skills
	})
	skill := childSkill(t, "raw")
	child := aboutChild(t, source, skill).PID
	eventually.Holds(t, "the child is gone", func() bool { return !isAlive(child) })
	if next := aboutChild(t, source, skill).PID; next == child {
		t.Error("the next call did not start the child again")
	}
}
