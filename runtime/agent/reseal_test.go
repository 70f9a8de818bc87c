package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// startWithKeyset starts a process with an edited copy of the world's keyset.
func (w *world) startWithKeyset(keyset string, edit func(*secret.Keys) error) (process, string) {
	w.t.Helper()
	_, changed, err := secret.ChangeKeyset(w.t.Context(), keyset, "test", secret.Change{Edit: edit})
	check(w.t, err)
	box, err := secret.Open(secret.Config{Keyset: changed})
	check(w.t, err)
	return w.start(agent.Config{Box: box}), changed
}

func (w *world) reseal(p process) (n int, err error) {
	w.t.Helper()
	err = postgres.InTx(w.t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		n, err = p.Reseal(w.t.Context(), tx)
		return err
	})
	return n, err
}

func TestReseal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keyset, err := secret.NewKeyset()
	check(t, err)
	old, keyset := w.startWithKeyset(keyset, nil)
	_, err = old.Apply(t.Context(), operator, readSpec(t, `{
		"skills": [
			{"name": "mail", "transport": "http", "url": "https://mail.example/mcp", "headers": {"Authorization": "Bearer m4il"}},
			{"name": "shell", "transport": "stdio", "command": ["sh"], "env": {"TOKEN": "sh3ll"}},
			{"name": "open", "transport": "http", "url": "https://open.example/mcp"}
		],
		"agents": [
			{"name": "clerk", "skills": [{"skill": "mail"}], "model": {"provider": "openai", "name": "m", "base_url": "http://127.0.0.1:1/v1", "api_key": "g3heim"}},
			{"name": "idle"}
		]}`), false)
	check(t, err)
	added, keyset := w.startWithKeyset(keyset, (*secret.Keys).Add)
	promoted, _ := w.startWithKeyset(keyset, (*secret.Keys).Promote)
	revisions := w.db.Count(`skills WHERE revision = 1`) + w.db.Count(`agents WHERE revision = 1`)
	events := w.db.Count(`audit_events`)

	for _, step := range []struct {
		name string
		process
		want int
	}{{"before the promotion", added, 0}, {"after it", promoted, 3}, {"again", promoted, 0}} {
		if n, err := w.reseal(step.process); err != nil || n != step.want {
			t.Errorf("%s: %d, %v", step.name, n, err)
		}
	}
	if now := w.db.Count(`skills WHERE revision = 1`) + w.db.Count(`agents WHERE revision = 1`); now != revisions || w.db.Count(`audit_events`) != events {
		t.Error("resealing notified other processes")
	}

	a, err := added.AgentByName(t.Context(), "clerk")
	check(t, err)
	if model, err := added.Model(t.Context(), a.ID); err != nil || model.APIKey != "g3heim" {
		t.Errorf("model %+v, %v", model, err)
	}
	mail, err := added.SkillByName(t.Context(), "mail")
	check(t, err)
	if _, server, err := added.FreshSkill(t.Context(), mail.ID); err != nil || server.Headers["Authorization"] != "Bearer m4il" {
		t.Errorf("server %+v, %v", server, err)
	}
	_, _, err = old.FreshSkill(t.Context(), mail.ID)
	var unknown *secret.DecryptError
	if !errors.As(err, &unknown) || !unknown.UnknownKey {
		t.Errorf("still sealed with the old key: %v", err)
	}
}

// The error names a value that cannot be decrypted, and nothing changes.
func TestResealAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := secret.NewKeyset()
	check(t, err)
	mine, first := w.startWithKeyset(first, nil)
	other, err := secret.NewKeyset()
	check(t, err)
	stranger, _ := w.startWithKeyset(other, nil)
	for name, p := range map[string]process{"mine": mine, "lost": stranger} {
		_, err := p.CreateSkill(t.Context(), operator, agent.SkillSpec{
			Name: name, Transport: "http", URL: "https://x.example/mcp", Headers: map[string]string{"X-Key": "k"},
		})
		check(t, err)
	}
	rotated, _ := w.startWithKeyset(first, (*secret.Keys).Rotate)
	sealed := func() (bytes []byte) {
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT secrets FROM skills WHERE name = 'mine'`).Scan(&bytes))
		return bytes
	}
	before := string(sealed())
	n, err := w.reseal(rotated)
	if !errors.Is(err, secret.ErrDecrypt) || !strings.Contains(err.Error(), "lost") || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if string(sealed()) != before {
		t.Error("some values were resealed")
	}
}
