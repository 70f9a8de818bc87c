package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// LocalIssuer is the issuer of people that no identity provider knows: those of personal tokens, sign-in links and the
// bootstrap token.
const LocalIssuer = "holdpoint"

// Person is identified by issuer and subject. Name and email are for display only.
type Person struct {
	ID      uuid.UUID
	Issuer  string
	Subject string
	Name    string
	Email   string
	// VerifiedEmail is the address that the identity provider called verified at the last sign-in. Empty: none.
	VerifiedEmail string
	CreatedAt     time.Time
	// Teams are those that the last sign-in claimed and those that an operator granted.
	Teams []string
	// InvitedBy is the person who invited a local person. No identity provider verified that person. uuid.Nil: none.
	InvitedBy uuid.UUID
	// First: the holder of the bootstrap token created this person for themselves.
	First bool
	// Limit is of the calls that the person may decide as a reviewer. Nil: all.
	Limit *Limit
}

// Verified reports whether the person's identity rests on more than the word of one inviter.
func (p *Person) Verified() bool { return p.Issuer != LocalIssuer || p.InvitedBy == uuid.Nil }

// UniqueNames returns the names by which settings may refer to the person: the verified email address, and the name of a person whom no
// identity provider and no inviter vouches for.
func (p *Person) UniqueNames() []string {
	var names []string
	if p.VerifiedEmail != "" {
		names = append(names, p.VerifiedEmail)
	}
	if p.Issuer == LocalIssuer && p.Verified() {
		names = append(names, p.Subject)
	}
	return names
}

// People returns the people with these ids that exist.
func (s *Service) People(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Person, error) {
	people, batch := make(map[uuid.UUID]Person, len(ids)), &pgx.Batch{}
	QueuePeople(batch, ids, people)
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	return people, nil
}

// QueuePeople adds the read of [Service.People] to a batch.
func QueuePeople(batch *pgx.Batch, ids []uuid.UUID, into map[uuid.UUID]Person) {
	batch.Queue(`SELECT `+personColumns+` FROM people p WHERE p.id = ANY($1)`, ids).Query(func(rows pgx.Rows) error {
		people, err := pgx.CollectRows(rows, scanPerson)
		if err != nil {
			return fmt.Errorf("read people: %w", err)
		}
		for _, p := range people {
			into[p.ID] = p
		}
		return nil
	})
}

// Named returns the people with this name, email address, subject or id. Names are not unique: use it to search, never to
// identify a person.
func (s *Service) Named(ctx context.Context, name string) ([]uuid.UUID, error) {
	if !utf8.ValidString(name) || strings.Contains(name, "\x00") {
		return []uuid.UUID{}, nil
	}
	people, err := collectPeople(ctx, s.pool, `SELECT `+personColumns+` FROM people p
		WHERE p.name = $1 OR p.email = $1 OR p.subject = $1 OR p.id::text = $1`, name)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(people))
	for i := range people {
		ids[i] = people[i].ID
	}
	return ids, nil
}

// FindNamed returns, by name, the people with this e-mail address, or without one, with this name, subject or id. Blocked people are left
// out. Names are not unique: use it to ask people, never to identify a person.
func FindNamed(ctx context.Context, db postgres.Querier, names []string) (map[string][]uuid.UUID, error) {
	found := map[string][]uuid.UUID{}
	if len(names) == 0 {
		return found, nil
	}
	rows, _ := db.Query(ctx, `SELECT n.name, p.id FROM unnest($1::text[]) AS n (name) JOIN people p ON p.blocked_at IS NULL
			AND (lower(p.email) = lower(n.name) OR (p.name = n.name OR p.subject = n.name OR p.id::text = n.name)
				AND NOT EXISTS (SELECT FROM people e WHERE e.blocked_at IS NULL AND lower(e.email) = lower(n.name)))
		GROUP BY n.name, p.id ORDER BY n.name, p.id`, names)
	var name string
	var id uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		found[name] = append(found[name], id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find people by their names: %w", err)
	}
	return found, nil
}

// maxNamesContaining bounds the people that [Service.NamesContaining] returns.
const maxNamesContaining = 1000

// NamesContaining returns the people whose name or email address contains a text, ignoring case.
func (s *Service) NamesContaining(ctx context.Context, text string) ([]uuid.UUID, error) {
	rows, _ := s.pool.Query(ctx, `SELECT id FROM people WHERE strpos(lower(name), lower($1)) > 0 OR strpos(lower(email), lower($1)) > 0
		ORDER BY id DESC LIMIT $2`, text, maxNamesContaining)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find people with a text in their names: %w", err)
	}
	return ids, nil
}

// PrincipalName returns a person's name for other servers: issuer, "#" and subject. Bytes other than visible ASCII are
// percent-encoded, and in the subject also # and %. The name is unique, never changes, and fits into a header. It is "" for
// uuid.Nil. Error: [ErrNotFound].
func PrincipalName(ctx context.Context, db postgres.Querier, person uuid.UUID) (string, error) {
	if person == uuid.Nil {
		return "", nil
	}
	found, err := postgres.CollectOne(ctx, db, pgx.RowToStructByPos[struct{ Issuer, Subject string }], `SELECT issuer, subject FROM people WHERE id = $1`, person)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("name person %s: %w", person, err)
	}
	return escapeInvisible(found.Issuer, "#") + "#" + escapeInvisible(found.Subject, "#%"), nil
}

// escapeInvisible percent-encodes all bytes other than visible ASCII, and those in also.
func escapeInvisible(text, also string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c > ' ' && c <= '~' && strings.IndexByte(also, c) < 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Blocked reports whether an operator has blocked a person.
func (s *Service) Blocked(ctx context.Context, id uuid.UUID) (bool, error) {
	return isBlocked(ctx, s.pool, id)
}

func isBlocked(ctx context.Context, db postgres.Querier, id uuid.UUID) (bool, error) {
	blocked, err := postgres.CollectOne(ctx, db, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM people WHERE id = $1 AND blocked_at IS NOT NULL)`, id)
	if err != nil {
		return false, fmt.Errorf("check person %s: %w", id, err)
	}
	return blocked, nil
}

// Standing says whether people and their credentials are still valid.
type Standing struct {
	Blocked []uuid.UUID         // those of the people who are blocked
	Revoked bool                // a personal token, used directly or through a session, is revoked
	Demoted bool                // the deciding person is no longer a reviewer
	Limits  map[uuid.UUID]Limit // of those of the people who have one
}

// Covers reports whether the limit of a person, as a reviewer, includes a call.
func (s *Standing) Covers(person uuid.UUID, scope Scope) bool {
	limit, limited := s.Limits[person]
	return !limited || limit.Covers(scope)
}

// QueueStanding queues a query for the standing of people, of the credential that decided on a call, and of the credential
// that made the call. A credential that expired or signed out later was valid when it was used, and does not count.
func QueueStanding(batch *pgx.Batch, people []uuid.UUID, decided audit.Credential, call uuid.UUID, into *Standing) {
	var token, session *uuid.UUID
	if id, err := uuid.Parse(decided.ID); err == nil {
		switch decided.Kind {
		case audit.PersonalToken:
			token = &id
		case audit.BrowserSession:
			session = &id
		default: // other credentials cannot be revoked
		}
	}
	batch.Queue(`SELECT ARRAY(SELECT id FROM people WHERE id = ANY($1) AND blocked_at IS NOT NULL),
		EXISTS (SELECT FROM person_tokens WHERE revoked_at IS NOT NULL
			AND (id = ANY($2::uuid || `+audit.FirstCredential("$3", "$4")+`) OR id IN (SELECT token_id FROM person_sessions
				WHERE id = ANY($5::uuid || `+audit.FirstCredential("$3", "$6")+`)))),
		EXISTS (SELECT FROM person_sessions s JOIN people p ON p.id = s.person_id
			WHERE s.id = $5 AND s.method <> $7 AND NOT $8 = ANY(s.roles || p.claimed_roles || p.granted_roles)),
		(SELECT jsonb_object_agg(id, review_limit) FROM people WHERE id = ANY($1) AND review_limit IS NOT NULL)`,
		people, token, call, audit.PersonalToken, session, audit.BrowserSession, ByToken, Reviewer).QueryRow(func(row pgx.Row) error {
		return row.Scan(&into.Blocked, &into.Revoked, &into.Demoted, &into.Limits)
	})
}

// ensureLocalPerson returns the local person with this name, and creates it if there is none.
func (s *Service) ensureLocalPerson(ctx context.Context, by audit.Actor, name string) (Person, error) {
	person, err := findPerson(ctx, s.pool, name)
	if !errors.Is(err, ErrNotFound) {
		return person, err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		person, err = ensurePersonInTx(ctx, tx, by, name)
		return err
	})
	return person, err
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

func ensurePersonInTx(ctx context.Context, tx pgx.Tx, by audit.Actor, name string) (Person, error) {
	person, _, err := addPerson(ctx, tx, by, name, uuid.Nil)
	return person, err
}

// addPerson creates a local person if there is none with this name, and returns the person.
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
			Actor: by, Action: audit.PersonCreated, Subject: id,
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

// validName refuses names that could be mistaken for others when they are shown.
func validName(name string) error {
	bad := func(r rune) bool { return !plain.IsVisible(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) ||
		strings.TrimSpace(name) != name || strings.ContainsFunc(name, bad) {
		return fault.Invalid("name", fmt.Sprintf(
			"must be 1 to %d bytes of printable text without white space at its ends", maxName))
	}
	return nil
}

const personColumns = `p.id, p.issuer, p.subject, p.name, coalesce(p.email, ''), coalesce(p.verified_email, ''), p.created_at,
	ARRAY(SELECT DISTINCT unnest(p.claimed_teams || p.granted_teams) ORDER BY 1),
	coalesce(p.invited_by, '00000000-0000-0000-0000-000000000000'), p.first, p.review_limit`

func collectPeople(ctx context.Context, db postgres.Querier, sql string, args ...any) ([]Person, error) {
	people, err := postgres.Collect(ctx, db, scanPerson, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	return people, nil
}

func scanPerson(row pgx.CollectableRow) (Person, error) {
	var p Person
	err := row.Scan(p.scanTargets()...)
	return p, err
}

func (p *Person) scanTargets() []any {
	return []any{&p.ID, &p.Issuer, &p.Subject, (*shownText)(&p.Name), (*shownText)(&p.Email), &p.VerifiedEmail, &p.CreatedAt, &p.Teams, &p.InvitedBy, &p.First, &p.Limit}
}

// shownText is stored text from outside, read for display: invisible characters become escapes.
type shownText string

// ScanText implements [pgtype.TextScanner].
func (t *shownText) ScanText(text pgtype.Text) error {
	*t = shownText(plain.Line(text.String, len(text.String)))
	return nil
}
