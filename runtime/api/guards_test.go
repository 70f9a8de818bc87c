package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/guarded"
)

func TestGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	billing, err := w.agents.AgentByName(t.Context(), "billing")
	check(t, err)
	id := uuid.New()
	report := guarded.Report{WatchKey: strings.Repeat("k", 32), Host: "codex", Machine: "m", Scope: "user", Version: "1", Every: time.Second, Problems: []string{"gone"}}
	check(t, w.guards.Report(t.Context(), billing.ID, id, report))
	found := listItems(t, w.get("guards?agent=billing", w.reviewer).wantStatus(t, 200))
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	g, _ := found[0].(map[string]any)
	if g["id"] != id.String() || g["agent"] != "billing" || g["state"] != "broken" || g["seen_at"] != g["watched_at"] || g["asked_at"] != nil {
		t.Errorf("%v", g)
	}
	w.get("guards?agent=nobody", w.reviewer).wantProblem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/guards/"+id.String(), w.reviewer, "").wantProblem(t, 403, "forbidden")
	w.send("DELETE", "/api/v1/guards/"+id.String(), w.operator, "").wantStatus(t, 204)
	for _, unknown := range []string{id.String(), "x"} {
		w.send("DELETE", "/api/v1/guards/"+unknown, w.operator, "").wantProblem(t, 404, "not_found")
	}
}
