package oauthclient_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// secrets are the values of a test that must not appear in clear: tokens, codes, states, verifiers,
// secrets and keys. They also hold all errors of the test.
type secrets struct {
	mu     sync.Mutex
	values map[string]string // kinds of secrets by value
	errors []string
}

func newSecrets() *secrets { return &secrets{values: map[string]string{}} }

// add records a secret and returns it.
func (s *secrets) add(kind, value string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(value) >= 8 { // shorter ones would match by accident
		s.values[value] = kind
	}
	return value
}

// recordError records an error for the search and returns it.
func (b *base) recordError(err error) error {
	if err != nil {
		b.known.mu.Lock()
		defer b.known.mu.Unlock()
		b.known.errors = append(b.known.errors, err.Error())
	}
	return err
}

// findIn returns the kinds of the secrets in a text, in every form that a database or log may write.
func (s *secrets) findIn(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []string
	for value, kind := range s.values {
		for _, form := range []string{value, hex.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(value))} {
			if strings.Contains(text, form) {
				kinds = append(kinds, kind+" "+value)
				break
			}
		}
	}
	return kinds
}

// findLeaks searches all tables, the log and all errors for secrets.
func (b *base) findLeaks(t testing.TB) {
	t.Helper()
	for _, kind := range b.known.findIn(b.log.String()) {
		t.Errorf("the log holds the %s", kind)
	}
	for _, text := range b.known.errors {
		for _, kind := range b.known.findIn(text) {
			t.Errorf("the error %q holds the %s", text, kind)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	for name, text := range b.dump(ctx, t) {
		for _, kind := range b.known.findIn(text) {
			t.Errorf("table %s holds the %s in clear", name, kind)
		}
	}
}

// dump returns the text of all columns by table.
func (b *base) dump(ctx context.Context, t testing.TB) map[string]string {
	t.Helper()
	rows, err := b.db.Pool().Query(ctx, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	check(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	texts := map[string]string{}
	for _, name := range names {
		rows, err := b.db.Pool().Query(ctx, `SELECT row_to_json(t)::text FROM `+pgx.Identifier{name}.Sanitize()+` t`)
		check(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		texts[name] = strings.Join(lines, "\n")
	}
	return texts
}

// The search finds secrets.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const text, binary = "visible-secret", "binary-secret"
	known := newSecrets()
	known.add("text", text)
	known.add("binary", binary)
	_, err := w.db.Pool().Exec(t.Context(), `INSERT INTO oauth_clients (issuer, redirect_uri, client_id, auth_method, sealed)
		VALUES ('x', 'y', $1, 'none', $2)`, "a "+text, []byte("b "+binary))
	check(t, err)
	if found := known.findIn(w.dump(t.Context(), t)["oauth_clients"]); len(found) != 2 {
		t.Errorf("found %v, want both", found)
	}
	w.logger().Debug("it", "value", text)
	if found := known.findIn(w.log.String()); len(found) != 1 {
		t.Errorf("found %v in the log", found)
	}
}
