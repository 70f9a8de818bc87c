package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/guarded"
)

// fakeGuards records what it is told.
type fakeGuards struct {
	mu   sync.Mutex
	err  error
	told []string
}

func (f *fakeGuards) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeGuards) Report(_ context.Context, _, id uuid.UUID, r guarded.Report) error {
	return f.note("report %s %+v", id, r)
}

func (f *fakeGuards) NoteAsked(_ context.Context, _, id uuid.UUID) { _ = f.note("asked %s", id) }

func (f *fakeGuards) NoteBypass(_ context.Context, _, id uuid.UUID, tool string) error {
	return f.note("bypass %s %s", id, tool)
}

func (f *fakeGuards) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (b *bench) guard(method, path, body string, header ...string) answer {
	b.t.Helper()
	r := b.newRequest(context.Background(), body, header...)
	r.Method, r.URL.Path = method, "/agents/billing/guards/"+path
	return b.sendRequest(r)
}

func TestGuardReports(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.New()
	const body = `{"watch_key":"k","host":"codex","machine":"m","scope":"user","version":"1","files":["/f"],"every":15,"problems":["p"],"removed":true}`
	if a := b.guard("PUT", id.String(), body); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	want := fmt.Sprintf("report %s %+v", id, guarded.Report{
		WatchKey: "k", Host: "codex", Machine: "m", Scope: "user", Version: "1", Files: []string{"/f"}, Every: 15 * time.Second, Problems: []string{"p"}, Removed: true,
	})
	if len(b.guards.told) != 1 || b.guards.told[0] != want {
		t.Errorf("told %q", b.guards.told)
	}
	for err, want := range map[error]string{
		guarded.ErrNotFound: `404 "code":"not_found"`, guarded.ErrWatchKey: `403 "code":"wrong_watch_key"`,
		fault.Invalid("scope", "must be machine or user"): `422 "detail":"scope: must be machine or user"`, errors.New("broken"): `500 "code":"internal"`,
	} {
		b.guards.fail(err)
		a := b.guard("PUT", id.String(), body)
		if status, says, _ := strings.Cut(want, " "); strconv.Itoa(a.status) != status || !strings.Contains(a.body, says) {
			t.Errorf("%v: %d %s", err, a.status, a.body)
		}
	}
	for name, a := range map[string]answer{
		"404 id":         b.guard("PUT", "x", body),
		"422 every":      b.guard("PUT", id.String(), `{"every":-1}`),
		"400 json":       b.guard("PUT", id.String(), `{`),
		"401 credential": b.guard("PUT", id.String(), body, "Authorization", "Bearer nobody"),
	} {
		if !strings.HasPrefix(name, strconv.Itoa(a.status)) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// A call that ran counts as a bypass if it was not released. The question of a hook shows that its guard lives.
func TestGuardBypass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := uuid.New()
	ran := func(command string) string {
		return b.guard("POST", id.String()+"/ran", `{"skill":"laptop","tool":"Bash","arguments":{ "command" : "`+command+`"}}`).body
	}
	if got := ran("released"); got != `{"released":true}` || len(b.guards.told) != 0 {
		t.Errorf("%s, told %q", got, b.guards.told)
	}
	if got := ran("other"); got != `{"released":false}` || len(b.guards.told) != 1 || b.guards.told[0] != "bypass "+id.String()+" Bash" {
		t.Errorf("%s, told %q", got, b.guards.told)
	}
	if a := b.guard("POST", id.String()+"/ran", `{"skill":"laptop","arguments":{}}`); a.status != 422 || !strings.Contains(a.body, "tool: must be") {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.gate("POST", "", strings.Replace(bashBody, `"context":{`, `"context":{"guard":"`+id.String()+`",`, 1))
	if len(b.guards.told) != 2 || b.guards.told[1] != "asked "+id.String() {
		t.Errorf("told %q", b.guards.told)
	}
}
