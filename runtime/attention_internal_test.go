package runtime

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// attending is a runtime that is not started, with a webhook of a team.
func attending(t *testing.T) (*Runtime, *postgres.DB) {
	t.Helper()
	cfg := newConfig(t)
	db := cfg.DB
	rt, err := New(cfg)
	must(t, err)
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{})
	must(t, err)
	rt.Notify.Start(client)
	t.Cleanup(rt.Notify.Close)
	_, err = rt.Notify.CreateWebhook(t.Context(), audit.System(), notify.NewWebhook{Name: "board", Team: "board", URL: "https://chat.example/x"})
	must(t, err)
	return rt, db
}

func newConfig(t *testing.T) Config {
	t.Helper()
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	must(t, err)
	return Config{DB: postgrestest.New(t), Box: box, Logger: slog.New(slog.DiscardHandler), Now: time.Now, PublicURL: "http://127.0.0.1:1"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoticesCarryAllWhoAreAsked: one event names all teams and people, and not only the first.
func TestNoticesCarryAllWhoAreAsked(t *testing.T) {
	t.Parallel()
	rt, db := attending(t)
	by, person := uuid.New(), uuid.New()
	for kind, want := range map[call.AttentionKind]notify.Kind{
		call.Waits: notify.Parked, call.Alone: notify.NoReviewer, call.Unmeetable: notify.Unmeetable, call.Escalated: notify.Escalated, call.Asked: notify.Asked,
		call.BrokeGlass: notify.BrokeGlass,
	} {
		asked := approval.Audience{Teams: []string{"finance", "board"}, People: []uuid.UUID{person}, Names: []string{"cfo@example.com"}, Whole: true, Everyone: true}
		notice := call.Attention{Kind: kind, Approval: approval.Approval{CallID: uuid.New(), Team: "finance"}, Step: 2, Asked: asked, By: by}
		must(t, postgres.InTx(t.Context(), db.Pool(), func(tx pgx.Tx) error { return rt.queueNotices(t.Context(), tx, []call.Attention{notice}) }))
		var args []byte
		must(t, db.Pool().QueryRow(t.Context(), `DELETE FROM river_job WHERE kind = 'notify_spread' RETURNING args`).Scan(&args))
		var job struct{ Events []notify.Event }
		must(t, json.Unmarshal(args, &job))
		if len(job.Events) != 1 {
			t.Fatalf("%s: %s", kind, args)
		}
		e := job.Events[0]
		got := fmt.Sprint(e.Kind, e.CallID, e.By, e.Step, e.Asked, e.People, e.Names, e.Whole, e.Everyone, e.Team)
		if expected := fmt.Sprint(want, notice.Approval.CallID, by, 2, asked.Teams, asked.People, asked.Names, true, true, "finance"); got != expected {
			t.Errorf("%s: %s, want %s", kind, got, expected)
		}
	}
}

// TestDecidersOfPolicies: whether the reviewers can meet the policies of a call goes by those who may decide it.
func TestDecidersOfPolicies(t *testing.T) {
	t.Parallel()
	rt, db := attending(t)
	people := map[string]uuid.UUID{}
	for name, teams := range map[string][]string{"ann": {"finance"}, "ben": {"finance"}, "cem": {"board"}} {
		_, credential, err := rt.Identity.CreateToken(t.Context(), uuid.Nil, name, []identity.Role{identity.Reviewer}, nil)
		must(t, err)
		access, err := rt.Identity.Authenticate(t.Context(), credential)
		must(t, err)
		people[name] = access.Person.ID
		_, err = db.Pool().Exec(t.Context(), `UPDATE people SET granted_teams = $2 WHERE id = $1`, access.Person.ID, teams)
		must(t, err)
	}
	limit := func(name, text string) {
		_, err := db.Pool().Exec(t.Context(), `UPDATE people SET review_limit = $2::jsonb WHERE id = $1`, people[name], text)
		must(t, err)
		rt.Identity.Invalidate()
	}
	bank := []policy.Policy{{Spec: policy.Spec{Name: "bank", Any: []policy.Alternative{{All: []policy.Line{{Count: 2, Teams: []string{"finance"}}, {Count: 1, Teams: []string{"board"}}}}}}}}
	want := func(what, expected string, a approval.Approval) {
		t.Helper()
		a.CallID, a.Policies, a.AgentID, a.SkillID = uuid.New(), bank, uuid.New(), uuid.New()
		lack, err := rt.Calls.FindLack(t.Context(), &a)
		must(t, err)
		var lines []string
		for i := range lack.Shortages {
			lines = append(lines, fmt.Sprintf("%s: %d", lack.Shortages[i].Line.String(), lack.Shortages[i].Able))
		}
		if got := strings.Join(lines, ", "); got != expected || lack.Nobody {
			t.Errorf("%s: %q, want %q", what, got, expected)
		}
	}
	rt.Identity.Invalidate()
	want("all", "", approval.Approval{})
	want("for one of them", "2 of finance: 1", approval.Approval{PrincipalID: people["ann"]})
	want("edited by one of them", "1 of board: 0", approval.Approval{EditedBy: people["cem"]})
	limit("cem", `{"teams":["board"]}`)
	want("limited to a team of the policy", "", approval.Approval{})
	limit("cem", `{"teams":["sales"]}`)
	want("limited to other calls", "1 of board: 0", approval.Approval{})
}
