package runtime

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// TestExamineReviewers: a reviewer counts for the calls of their limit, but not if a maker of the agent's keys invited them. The number of
// queries does not depend on the number of agents and skills.
func TestExamineReviewers(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t)
	pool := cfg.DB.Pool()
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	rt, err := New(cfg)
	must(t, err)
	defer rt.closeServices(t.Context())
	people := map[string]uuid.UUID{}
	for _, name := range []string{"ann", "guest"} {
		_, credential, err := rt.Identity.CreateToken(t.Context(), uuid.Nil, name, []identity.Role{identity.Reviewer}, nil)
		must(t, err)
		access, err := rt.Identity.Authenticate(t.Context(), credential)
		must(t, err)
		people[name] = access.Person.ID
	}
	exec(`UPDATE people SET review_limit = '{"skills":["s0"]}' WHERE id = $1`, people["ann"])
	exec(`UPDATE people SET invited_by = $2 WHERE id = $1`, people["guest"], people["ann"])
	exec(`INSERT INTO agents (id, name, wait_budget_ms) SELECT gen_random_uuid(), 'a' || n, 1000 FROM generate_series(0, 2) n`)
	exec(`INSERT INTO skills (id, name, transport, settings, approval_timeout_ms, call_timeout_ms)
		SELECT gen_random_uuid(), 's' || n, 'http', '{}', 1000, 1000 FROM generate_series(0, 2) n`)
	exec(`INSERT INTO assignments (agent_id, skill_id) SELECT a.id, s.id FROM agents a, skills s`)
	exec(`INSERT INTO agent_keys (id, agent_id, secret_hash, hint, created_by, revoked_at)
		SELECT gen_random_uuid(), id, sha256(name::bytea), '', $1, CASE name WHEN 'a2' THEN holdpoint_now() END FROM agents WHERE name <> 'a0'`, people["ann"])

	examine := func(want ...string) (queries int64) {
		t.Helper()
		before := pool.Stat().AcquireCount()
		lacking, err := ExamineReviewers(t.Context(), cfg)
		must(t, err)
		var got []string
		for _, one := range lacking {
			got = append(got, fmt.Sprintf("%s/%s", one.Agent, one.Skill))
		}
		if !slices.Equal(got, want) {
			t.Errorf("nobody can approve %v, want %v", got, want)
		}
		return pool.Stat().AcquireCount() - before
	}
	all := examine("a1/s1", "a1/s2")
	exec(`DELETE FROM assignments USING agents a, skills s WHERE a.id = agent_id AND s.id = skill_id AND a.name || s.name <> 'a1s1'`)
	if one := examine("a1/s1"); all != one {
		t.Errorf("%d queries for 9 skills of agents, %d for one", all, one)
	}
}
