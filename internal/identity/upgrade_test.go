package identity_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/migrations"
)

// Tokens of an earlier version end 90 days after the upgrade, and invited people are not verified.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	earlier := fstest.MapFS{}
	names, err := fs.Glob(migrations.FS, "*.sql")
	check(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_people.sql") {
			break
		}
		text, err := fs.ReadFile(migrations.FS, name)
		check(t, err)
		earlier[name] = &fstest.MapFile{Data: text}
	}
	_, err = postgres.Migrate(t.Context(), db, earlier)
	check(t, err)
	olga, rita, agent, key := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'holdpoint', 'olga', 'olga'), ($2, 'holdpoint', 'rita', 'rita')`, []any{olga, rita}},
		{`INSERT INTO person_tokens (id, person_id, secret_hash, hint, roles, agents) VALUES ($1, $2, '', 'hpp_', '{reviewer}', '{}')`, []any{uuid.New(), rita}},
		{`INSERT INTO agents (id, name, wait_budget_ms) VALUES ($1, 'billing', 1000)`, []any{agent}},
		{`INSERT INTO agent_keys (id, agent_id, secret_hash, hint) VALUES ($1, $2, '', 'hpa_')`, []any{key, agent}},
		{`INSERT INTO audit_events (subject_id, actor_id, actor_kind, action) VALUES ($1, $2, 'person', 'person.created')`, []any{rita, olga}},
		{`INSERT INTO audit_events (subject_id, actor_id, actor_kind, action, data) VALUES ($1, $2, 'person', 'agent_key.created', jsonb_build_object('key', $3::text))`, []any{agent, olga, key.String()}},
	} {
		_, err = db.Pool().Exec(t.Context(), statement.sql, statement.args...)
		check(t, err)
	}
	_, err = postgres.Migrate(t.Context(), db, migrations.FS)
	check(t, err)
	s := newLocalService(t, db, "", 0)
	tokens, err := s.TokensOf(t.Context(), rita)
	check(t, err)
	if left := time.Until(tokens[0].ExpiresAt); left < 89*24*time.Hour || left > 91*24*time.Hour {
		t.Errorf("the token ends in %s", left)
	}
	people, err := s.People(t.Context(), []uuid.UUID{olga, rita})
	check(t, err)
	if people[rita].InvitedBy != olga || people[olga].InvitedBy != uuid.Nil {
		t.Errorf("people %+v", people)
	}
	var maker uuid.UUID
	check(t, db.Pool().QueryRow(t.Context(), `SELECT created_by FROM agent_keys WHERE id = $1`, key).Scan(&maker))
	if maker != olga {
		t.Errorf("the key was made by %s", maker)
	}
}
