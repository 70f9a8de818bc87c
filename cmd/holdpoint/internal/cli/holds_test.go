package cli_test

import (
	"strings"
	"testing"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	const hold = `{"id":"h1","agent_id":"a1","agent":"billing","from":"2026-01-01T00:00:00Z","to":null,"reason":"case 4711","created_by":"olga","created_at":"2026-02-01T00:00:00Z","lifted_by":null,"lifted_at":null,"lift_reason":null}`
	f := newFake(t).setAnswer("GET /api/v1/legal-holds", `{"items":[`+hold+`],"next_cursor":null}`).
		setAnswer("POST /api/v1/legal-holds", hold).setAnswer("POST /api/v1/legal-holds/h1/lift", hold)
	wantContains(t, "list", f.run("holds", "list").wantCode(t, 0).stdout, "billing", "case 4711", "olga")
	wantContains(t, "set", f.run("holds", "set", "--agent", "billing", "--from", "2026-01-01", "--to", "2026-03-31", "--reason", "case 4711").wantCode(t, 0).stdout, "h1")
	if want := `{"agent":"billing","from":"2026-01-01T00:00:00Z","reason":"case 4711","to":"2026-04-01T00:00:00Z"}`; f.getLastBody() != want {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.run("holds", "lift", "h1", "--reason", "settled").wantCode(t, 0)
	if f.getLastBody() != `{"reason":"settled"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.run("holds", "set", "--from", "soon", "--reason", "x").wantCode(t, 1)
}

func TestPeopleExportAndErase(t *testing.T) {
	t.Parallel()
	const erasure = `{"person_id":"p1","pseudonym":"erased-1","asked_by":"olga","asked_at":"2026-02-01T00:00:00Z","erased":{"calls":3,"files":0},"left":{"held_calls":1},"finished_at":null}`
	f := newFake(t).setAnswer("POST /api/v1/people/p1/erase", erasure).setAnswer("GET /api/v1/people/p1/erasure", erasure).
		setAnswer("GET /api/v1/people/p1/export", `{"person":[]}`)
	for _, command := range []string{"erase", "erasure"} {
		got := f.run("people", command, "p1").wantCode(t, 0).stdout
		if wantContains(t, command, got, "erased-1", "calls 3", "held calls 1"); strings.Contains(got, "files") {
			t.Errorf("%s", got)
		}
	}
	if got := f.run("people", "export", "p1").wantCode(t, 0).stdout; got != `{"person":[]}` {
		t.Errorf("got %q", got)
	}
}
