package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const personColumns = `p.id, p.issuer, p.subject, p.name, coalesce(p.email, ''), p.created_at,
	ARRAY(SELECT DISTINCT unnest(p.claimed_teams || p.granted_teams) ORDER BY 1),
	coalesce(p.invited_by, '00000000-0000-0000-0000-000000000000'), p.first`

func (p *Person) targets() []any {
	return []any{&p.ID, &p.Issuer, &p.Subject, (*shownText)(&p.Name), (*shownText)(&p.Email), &p.CreatedAt, &p.Teams, &p.InvitedBy, &p.First}
}

// shownText is text from outside as people are shown it: what cannot be seen is an escape. It is stored as it came.
type shownText string

// ScanText implements [pgtype.TextScanner].
func (t *shownText) ScanText(text pgtype.Text) error {
	*t = shownText(plain.Line(text.String, len(text.String)))
	return nil
}

func scanPerson(row pgx.CollectableRow) (Person, error) {
	var p Person
	err := row.Scan(p.targets()...)
	return p, err
}

// People returns those of the ids that exist.
func (s *Service) People(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Person, error) {
	people, err := collectPeople(ctx, s.pool, `SELECT `+personColumns+` FROM people p WHERE p.id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]Person, len(people))
	for _, p := range people {
		byID[p.ID] = p
	}
	return byID, nil
}

func collectPeople(ctx context.Context, db postgres.Querier, sql string, args ...any) ([]Person, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	people, err := pgx.CollectRows(rows, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	return people, nil
}

// localPerson returns the local person of that name, whom it creates if new.
func (s *Service) localPerson(ctx context.Context, by audit.Actor, name string) (Person, error) {
	person, err := findPerson(ctx, s.pool, name)
	if !errors.Is(err, ErrNotFound) {
		return person, err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		person, err = ensurePerson(ctx, tx, by, name)
		return err
	})
	return person, err
}

// Blocked reports whether an operator blocked a person.
func (s *Service) Blocked(ctx context.Context, id uuid.UUID) (bool, error) {
	return isBlocked(ctx, s.pool, id)
}

func isBlocked(ctx context.Context, db postgres.Querier, id uuid.UUID) (bool, error) {
	rows, err := db.Query(ctx, `SELECT EXISTS (SELECT FROM people WHERE id = $1 AND blocked_at IS NOT NULL)`, id)
	if err != nil {
		return false, fmt.Errorf("check person %s: %w", id, err)
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
}

// Standing is whether people, and credentials that they used, are still good.
type Standing struct {
	Blocked []uuid.UUID // of the people
	Revoked bool        // a personal token was revoked, which was used directly or began a session that was used
	Demoted bool        // the person who decided is no reviewer any more
}

// QueueStanding reads the standing of people, of the credential that one of them decided about a call with, and of the credential that the call
// was made with. What ends by itself or by signing out was good when it was used.
func QueueStanding(batch *pgx.Batch, people []uuid.UUID, decided audit.Credential, call uuid.UUID, into *Standing) {
	var token, session *uuid.UUID
	if id, err := uuid.Parse(decided.ID); err == nil {
		switch decided.Kind {
		case audit.PersonalToken:
			token = &id
		case audit.BrowserSession:
			session = &id
		default: // it cannot be revoked
		}
	}
	batch.Queue(`SELECT ARRAY(SELECT id FROM people WHERE id = ANY($1) AND blocked_at IS NOT NULL),
		EXISTS (SELECT FROM person_tokens WHERE revoked_at IS NOT NULL
			AND (id = ANY($2::uuid || `+audit.FirstCredential("$3", "$4")+`) OR id IN (SELECT token_id FROM person_sessions
				WHERE id = ANY($5::uuid || `+audit.FirstCredential("$3", "$6")+`)))),
		EXISTS (SELECT FROM person_sessions s JOIN people p ON p.id = s.person_id
			WHERE s.id = $5 AND s.method <> $7 AND NOT $8 = ANY(s.roles || p.claimed_roles || p.granted_roles))`,
		people, token, call, audit.PersonalToken, session, audit.BrowserSession, ByToken, Reviewer).QueryRow(func(row pgx.Row) error {
		return row.Scan(&into.Blocked, &into.Revoked, &into.Demoted)
	})
}

func findPerson(ctx context.Context, db postgres.Querier, name string) (Person, error) {
	people, err := collectPeople(ctx, db,
		`SELECT `+personColumns+` FROM people p WHERE p.issuer = $1 AND p.subject = $2`, LocalIssuer, name)
	if err == nil && len(people) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Person{}, err
	}
	return people[0], nil
}

func ensurePerson(ctx context.Context, tx pgx.Tx, by audit.Actor, name string) (Person, error) {
	person, _, err := addPerson(ctx, tx, by, name, uuid.Nil)
	return person, err
}

// addPerson makes a local person, unless there is one of that name already.
func addPerson(ctx context.Context, tx pgx.Tx, by audit.Actor, name string, invitedBy uuid.UUID) (person Person, added bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Person{}, false, fmt.Errorf("create person %s: %w", name, err)
	}
	tag, err := tx.Exec(ctx, `INSERT INTO people (id, issuer, subject, name, invited_by) VALUES ($1, $2, $3, $3, $4)
		ON CONFLICT (issuer, subject) DO NOTHING`, id, LocalIssuer, name, postgres.OrNull(invitedBy))
	if err != nil {
		return Person{}, false, fmt.Errorf("create person %s: %w", name, err)
	}
	if tag.RowsAffected() == 1 {
		err := audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: "person.created", Subject: id,
			Data: map[string]any{"issuer": LocalIssuer, "subject": name},
		})
		if err != nil {
			return Person{}, false, err
		}
	}
	person, err = findPerson(ctx, tx, name)
	return person, tag.RowsAffected() == 1, err
}

const maxName = 128

// validName refuses names that could be taken for another when they are shown.
func validName(name string) error {
	bad := func(r rune) bool { return !plain.IsVisible(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) ||
		strings.TrimSpace(name) != name || strings.ContainsFunc(name, bad) {
		return &InvalidError{"name", fmt.Sprintf(
			"must be 1 to %d bytes of printable text without white space at its ends", maxName)}
	}
	return nil
}
