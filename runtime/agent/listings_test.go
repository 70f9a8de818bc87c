package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// recordListing records a listing as discovery does.
func (w *world) recordListing(skill *agent.Skill, began time.Time, failure *tool.Failure) {
	w.t.Helper()
	attempt := tool.Attempt{
		SkillID: skill.ID, Revision: skill.Revision, Began: began, Failure: failure, Tools: 3, Took: 20 * time.Millisecond,
	}
	w.recordAttempt(attempt)
}

func (w *world) recordAttempt(attempt tool.Attempt) {
	w.t.Helper()
	first, last := &pgx.Batch{}, &pgx.Batch{}
	record := agent.QueueListing(first, attempt)
	check(w.t, postgres.InBatchTx(context.WithoutCancel(w.t.Context()), w.db.Pool(), first, func(pgx.Tx) (*pgx.Batch, error) {
		record(last)
		return last, nil
	}))
}

func TestListings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/f"}]}`)
	skill, err := w.SkillByName(t.Context(), "files")
	check(t, err)
	down := &tool.Failure{Kind: tool.TransportFailure, Message: "connection refused\x00"}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := start.Add
	w.recordListing(skill, at(-31*24*time.Hour), nil)
	w.recordListing(skill, at(0), nil)
	w.recordListing(skill, at(30*time.Second), nil)  // does not count as a change
	w.recordListing(skill, at(40*time.Second), down) // counts as a change
	w.recordListing(skill, at(50*time.Second), down) // the same failure does not
	w.recordListing(skill, at(55*time.Second), nil)  // recovers
	w.recordListing(skill, at(2*time.Hour), down)    // fails again
	w.recordListing(skill, at(2*time.Hour+90*time.Second), down)
	w.recordListing(skill, at(time.Hour), nil) // out of order, so it is ignored
	if n := w.db.Count(`skill_listings`); n != 5 {
		t.Errorf("%d rows", n)
	}
	spans, troubles, err := w.Listings(t.Context(), skill.ID, start, time.Hour)
	check(t, err)
	want := []agent.Span{{From: at(0), Succeeded: 2, Failed: 1}, {From: at(2 * time.Hour), Failed: 2}}
	if len(spans) != len(want) {
		t.Fatalf("spans %+v", spans)
	}
	for i, span := range spans {
		if !span.From.Equal(want[i].From) || span.Succeeded != want[i].Succeeded || span.Failed != want[i].Failed {
			t.Errorf("span %d: %+v, want %+v", i, span, want[i])
		}
	}
	if len(troubles) != 1 || troubles[0].Kind != "transport" || troubles[0].Times != 3 || strings.ContainsRune(troubles[0].Error, 0) ||
		!troubles[0].First.Equal(at(40*time.Second)) || !troubles[0].Last.Equal(at(2*time.Hour+90*time.Second)) {
		t.Errorf("troubles %+v", troubles)
	}
	if spans, _, err := w.Listings(t.Context(), uuid.New(), start, time.Hour); err != nil || len(spans) != 0 {
		t.Errorf("of another skill: %+v, %v", spans, err)
	}
	check(t, w.DeleteSkill(t.Context(), operator, skill.ID))
	if n := w.db.Count(`skill_listings`); n != 0 {
		t.Errorf("%d rows of a deleted skill", n)
	}
}

// Discovery records the result of each listing.
func TestDiscoveryIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/f"}]}`)
	skill, err := w.SkillByName(t.Context(), "files")
	check(t, err)
	_, server, err := w.Skill(t.Context(), skill.ID)
	check(t, err)
	_, err = w.discovery.List(t.Context(), server, false)
	check(t, err)
	var tools int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT l.tools FROM skill_listings l JOIN skills s ON s.id = l.skill_id
		WHERE s.name = 'files' AND l.error_kind IS NULL`).Scan(&tools))
	if tools != 2 {
		t.Errorf("%d tools", tools)
	}
}

// The tools that a listing left out are reported until the next listing.
func TestSkippedTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/f"}]}`)
	skill, err := w.SkillByName(t.Context(), "files")
	check(t, err)
	list := func(skipped ...tool.Skipped) []tool.Skipped {
		t.Helper()
		attempt := tool.Attempt{SkillID: skill.ID, Revision: skill.Revision, Began: time.Now(), Skipped: skipped}
		w.recordAttempt(attempt)
		found, _, err := w.FreshSkill(t.Context(), skill.ID)
		check(t, err)
		return found.Health.Skipped
	}
	if got := list(tool.Skipped{Name: "a\x00", Reason: "its schema is none"}); len(got) != 1 || got[0].Name != "a\uFFFD" || got[0].Reason != "its schema is none" {
		t.Errorf("%+v", got)
	}
	if got := list(make([]tool.Skipped, 500)...); len(got) != 201 || got[200].Reason != "and 300 more" {
		t.Errorf("%d are remembered: %+v", len(got), got[len(got)-1])
	}
	if got := list(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
