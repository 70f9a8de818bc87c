package agent_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// grantable is a world under dual control with an agent, a skill and an accepted definition, from whose calls grants are made.
func grantable(t *testing.T) (*controlled, agent.NewGrant) {
	t.Helper()
	w := newControlled(t)
	skill, err := w.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{Name: "ledger", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp"})
	check(t, err)
	by, err := w.CreateAgent(t.Context(), audit.System(), agent.AgentSpec{Name: "billing"})
	check(t, err)
	_, server, err := w.FreshSkill(t.Context(), skill.ID)
	check(t, err)
	_, err = w.discovery.List(t.Context(), server, false)
	check(t, err)
	status, err := w.discovery.Status(t.Context(), skill.ID, "read")
	check(t, err)
	return w, agent.NewGrant{
		Spec:   grant.Spec{AgentID: by.ID, SkillID: skill.ID, Tool: "read", Pin: status.Current, Arguments: []grant.Matcher{exactly("/to", `"ann"`)}},
		CallID: uuid.New(),
	}
}

func exactly(argument, value string) grant.Matcher {
	return grant.Matcher{Argument: argument, Kind: grant.Exact, Values: []json.RawMessage{json.RawMessage(value)}}
}

// TestGrantsBeyondTheBoundWait: under dual control, one person grants only what is short, narrow and not risky.
func TestGrantsBeyondTheBoundWait(t *testing.T) {
	t.Parallel()
	w, plain := grantable(t)
	rita := uuid.New() // a reviewer
	g, err := w.CreateGrant(t.Context(), audit.Person(rita), plain)
	check(t, err)
	if g.State != agent.GrantActive {
		t.Errorf("a grant within the bound is %s", g.State)
	}
	for what, change := range map[string]func(*agent.NewGrant){
		"long": func(n *agent.NewGrant) { n.Time = grant.DefaultTime + time.Minute },
		"wide": func(n *agent.NewGrant) {
			n.Arguments = append(n.Arguments, grant.Matcher{Argument: "/n", Kind: grant.Anything})
		},
		"open": func(n *agent.NewGrant) {
			n.Arguments = append(n.Arguments, grant.Matcher{Argument: "/n", Kind: grant.Range, Min: "1"})
		},
		"risky": func(n *agent.NewGrant) { n.Risky = true },
	} {
		in := plain
		in.CallID, in.Arguments = uuid.New(), slices.Clone(plain.Arguments)
		change(&in)
		_, err := w.CreateGrant(t.Context(), audit.Person(rita), in)
		change1 := waits(t, err)
		_, err = w.CreateGrant(t.Context(), audit.Person(rita), in)
		if change2 := waits(t, err); change1.ID != change2.ID || change1.Kind != dualcontrol.Grant || change1.Name != "billing: ledger/read" || change1.FromCall() != in.CallID {
			t.Errorf("%s: %+v, and again %+v", what, change1, change2)
		}
		if _, err := w.control.Approve(t.Context(), rita, change1.ID, ""); !errors.Is(err, dualcontrol.ErrOwn) {
			t.Errorf("%s: approved by the same person: %v", what, err)
		}
		before := w.db.Count(`grants`)
		_, err = w.control.Approve(t.Context(), w.bob, change1.ID, "")
		check(t, err)
		if n := w.db.Count(`grants`); n != before+1 {
			t.Errorf("%s: %d grants after the approval, %d before", what, n, before)
		}
		made, err := w.ListGrants(t.Context(), true)
		check(t, err)
		if made[0].CallID != in.CallID || made[0].GrantedBy != rita || made[0].State != agent.GrantActive {
			t.Errorf("%s: granted %+v", what, made[0])
		}
		if got := w.db.Actions(made[0].ID); got != "grant.created" {
			t.Errorf("%s: audit %s", what, got)
		}
	}
	if n := w.db.Count(`changes WHERE fields <> '[]'`); n != 0 {
		t.Errorf("%d changes that ended have arguments", n)
	}
	if n := w.db.Count(`audit_events WHERE action = 'change.proposed' AND data ? 'fields'`); n != 0 {
		t.Errorf("%d events have arguments", n)
	}
}

func TestGrantsThatCannotBeApproved(t *testing.T) {
	t.Parallel()
	w, in := grantable(t)
	in.Risky, in.PrincipalID, in.Secret, in.Uses = true, w.bob, []string{"/to"}, new(int64(3))
	_, err := w.CreateGrant(t.Context(), audit.Person(w.alice), in)
	first := waits(t, err)
	var fields []string
	for _, f := range first.Fields {
		fields = append(fields, f.Field+"="+f.New)
	}
	if got := strings.Join(fields, " "); got != "call="+in.CallID.String()+" on_behalf_of="+w.bob.String()+" arguments/to=a secret time=8h0m0s uses=3" && got != "call="+in.CallID.String()+" on_behalf_of="+w.bob.String()+" arguments/to=a secret time=8h uses=3" {
		t.Errorf("fields %s", got)
	}
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'https://id.example.com', 'bob', 'bob')`, w.bob)
	if _, err := w.control.Approve(t.Context(), w.bob, first.ID, ""); !errors.Is(err, approval.ErrSelfApproval) {
		t.Errorf("approved by the person for whom calls are made: %v", err)
	}
	cleo := uuid.New()
	w.operators = append(w.operators, cleo)
	w.server.Offer(`{"name":"read","description":"new","inputSchema":{"type":"object"}}`)
	w.discovery.ListChanged(in.SkillID)
	fresh, server, err := w.FreshSkill(t.Context(), in.SkillID)
	check(t, err)
	_, err = w.discovery.List(t.Context(), server, fresh.TrustNewTools)
	check(t, err)
	if _, err := w.control.Approve(t.Context(), cleo, first.ID, ""); !errors.Is(err, dualcontrol.ErrStale) {
		t.Errorf("approved with another definition of the tool: %v", err)
	}
	w.operators = []uuid.UUID{w.alice}
	in.CallID = uuid.New()
	if _, err := w.CreateGrant(t.Context(), audit.Person(w.alice), in); !errors.Is(err, dualcontrol.ErrAlone) {
		t.Errorf("without a second operator: %v", err)
	}
	if n := w.db.Count(`grants`); n != 0 {
		t.Errorf("%d grants", n)
	}
}

// TestEveryFieldOfAGrantLoosensOrNot fails for a new field of a grant until somebody decides whether it can go beyond the bound.
func TestEveryFieldOfAGrantLoosensOrNot(t *testing.T) {
	t.Parallel()
	decided := map[string]string{
		"Spec": "its arguments may be open; the rest is that of the call", "CallID": "a person saw it", "Time": "bounded", "Uses": "any number is the default",
		"NeedsSecond": "asks for more", "Risky": "bounded", "Secret": "is not shown",
	}
	for field := range reflect.TypeFor[agent.NewGrant]().Fields() {
		if decided[field.Name] == "" {
			t.Errorf("field %s of a grant: say here whether it can go beyond the bound, and see NewGrant.loosens", field.Name)
		}
	}
}
