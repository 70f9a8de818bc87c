package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Method is how a person proved who they are.
type Method string

// The methods of signing in.
const (
	ByProvider Method = "oidc"
	ByLink     Method = "link"
	ByToken    Method = "token"
)

// NewSession is what a browser's session begins with.
type NewSession struct {
	Client   string        // the browser, as it calls itself
	Lifetime time.Duration // required
}

// Session is a browser that a person signed in with.
type Session struct {
	ID              uuid.UUID
	Person          uuid.UUID
	Method          Method
	Client          string
	AuthenticatedAt time.Time // when the person proved last who they are; zero: their provider does not say
	CreatedAt       time.Time
	ExpiresAt       time.Time
}

const sessionColumns = `s.id, s.person_id, s.method, s.client, s.authenticated_at, s.created_at, s.expires_at`

func scanSession(row pgx.CollectableRow) (Session, error) {
	var s Session
	var proved *time.Time
	err := row.Scan(&s.ID, &s.Person, &s.Method, &s.Client, &proved, &s.CreatedAt, &s.ExpiresAt)
	if proved != nil {
		s.AuthenticatedAt = *proved
	}
	return s, err
}

// maxClient bounds what is kept of a browser's name for itself.
const maxClient = 300

// cleanText makes of text from outside what the database takes.
func cleanText(text string, limit int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// BeginSession records that a person signed in with what gave this access: a personal token, the bootstrap token
// or a one-time link.
func (s *Service) BeginSession(ctx context.Context, access Access, n NewSession) (Session, error) {
	begun := sessionRow{person: access.Person.ID, method: ByToken, token: access.token, proof: justNow(), NewSession: n}
	switch access.Credential {
	case "":
		begun.method, begun.roles = ByLink, access.Roles
	case Bootstrap:
		begun.bootstrap = s.bootstrap
	}
	var session Session
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		session, err = insertSession(ctx, tx, begun)
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("begin session of %s: %w", access.Person.ID, err)
	}
	s.eligible.Drop()
	return session, nil
}

type sessionRow struct {
	NewSession

	person    uuid.UUID
	method    Method
	roles     []Role
	token     uuid.UUID
	bootstrap *secret.Hash // the session is the bootstrap token's
	proof     *time.Duration
}

// proof is how long ago a person proved who they are; nil: nobody can tell.
func justNow() *time.Duration { return new(time.Duration) }

// authenticatedAt is when that was, by the database's clock, of an argument.
func authenticatedAt(argument string) string {
	return `holdpoint_now() - ` + argument + `::bigint * interval '1 microsecond'`
}

func microseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	n := max(d.Microseconds(), 0)
	return &n
}

func insertSession(ctx context.Context, tx pgx.Tx, row sessionRow) (Session, error) {
	if row.Lifetime <= 0 {
		return Session{}, errors.New("a session's lifetime must be positive")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Session{}, err
	}
	if row.roles == nil {
		row.roles = []Role{}
	}
	var bootstrap []byte
	if row.bootstrap != nil {
		bootstrap = row.bootstrap[:]
	}
	rows, err := tx.Query(ctx, `INSERT INTO person_sessions AS s (id, person_id, method, roles, token_id, client, expires_at, bootstrap_hash, authenticated_at)
		VALUES ($1, $2, $3, $4, $5, $6, holdpoint_now() + $7 * interval '1 microsecond', $8, `+authenticatedAt("$9")+`) RETURNING `+sessionColumns,
		id, row.person, row.method, row.roles, postgres.OrNull(row.token), cleanText(row.Client, maxClient), row.Lifetime.Microseconds(), bootstrap,
		microseconds(row.proof))
	if err != nil {
		return Session{}, err
	}
	session, err := pgx.CollectExactlyOneRow(rows, scanSession)
	if err != nil {
		return Session{}, err
	}
	if _, err := tx.Exec(ctx, `UPDATE people SET signed_in_at = holdpoint_now() WHERE id = $1`, row.person); err != nil {
		return Session{}, err
	}
	return session, audit.Write(ctx, tx, audit.Event{
		Actor: audit.Person(row.person), Action: "session.created", Subject: row.person,
		Data: map[string]any{"session": id, "method": row.method, "client": session.Client},
	})
}

// SessionAccess is what a browser's session allows now: ErrUnauthenticated once it is over, or the
// credential that began it or the person lost their rights. From memory.
func (s *Service) SessionAccess(ctx context.Context, id uuid.UUID) (Access, error) {
	return s.sessions.Get(ctx, id, func(ctx context.Context) (Access, error) { return s.loadSession(ctx, id) })
}

// sessionState is a session's row with what its roles come from.
type sessionState struct {
	method  Method
	own     []Role // of the link or token that began it
	agents  []string
	claimed []Role
	granted []Role
	token   *uuid.UUID
	ends    *time.Time
	boot    []byte // hash of the bootstrap token that began it
	person  Person
}

func (s *Service) loadSession(ctx context.Context, id uuid.UUID) (Access, error) {
	rows, err := s.pool.Query(ctx, `SELECT s.method, coalesce(t.roles, s.roles), coalesce(t.agents, p.granted_agents), p.claimed_roles, p.granted_roles,
			s.token_id, t.expires_at, s.bootstrap_hash, `+personColumns+`
		FROM person_sessions s JOIN people p ON p.id = s.person_id LEFT JOIN person_tokens t ON t.id = s.token_id
		WHERE s.id = $1 AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() AND p.blocked_at IS NULL AND (t.id IS NULL OR `+tokenValid+`)`, id)
	if err != nil {
		return Access{}, fmt.Errorf("read session %s: %w", id, err)
	}
	state, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (sessionState, error) {
		var st sessionState
		targets := []any{&st.method, &st.own, &st.agents, &st.claimed, &st.granted, &st.token, &st.ends, &st.boot}
		err := row.Scan(append(targets, st.person.targets()...)...)
		return st, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Access{}, ErrUnauthenticated
	}
	if err != nil {
		return Access{}, fmt.Errorf("read session %s: %w", id, err)
	}
	return s.accessOf(id, state)
}

// accessOf puts the roles of a session together, and the agents that its person may act as. A token's session has the token's and no more:
// whoever finds a token finds what it was made for.
func (s *Service) accessOf(id uuid.UUID, st sessionState) (Access, error) {
	access := Access{Person: st.person, Agents: st.agents, Session: id, Method: st.method}
	switch {
	case st.method == ByToken && st.token != nil:
		access.Roles, access.token, access.Ends = st.own, *st.token, *st.ends
	case st.method == ByToken:
		if s.bootstrap == nil || !bytes.Equal(st.boot, s.bootstrap[:]) {
			return Access{}, ErrUnauthenticated // that token is no longer configured
		}
		access.Roles, access.Agents = bootstrapRoles(), []string{AnyAgent}
	case st.method == ByProvider && !slices.Contains(s.issuers, st.person.Issuer):
		return Access{}, ErrUnauthenticated // its provider is no longer configured
	default:
		access.Roles = union(st.own, st.claimed, st.granted)
		access.Agents = union(defaultAgents(access.Roles), st.agents)
	}
	if len(access.Roles) == 0 {
		return Access{}, ErrUnauthenticated
	}
	return access, nil
}

// union is all that is in one of the lists, in order; never nil, which the database takes for null.
func union[T ~string](lists ...[]T) []T {
	all := append([]T{}, slices.Concat(lists...)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// SessionFresh reports whether the person of a session proved who they are within the time given, by the
// database's clock. A provider's word that does not say when is never fresh.
func (s *Service) SessionFresh(ctx context.Context, id uuid.UUID, within time.Duration) (bool, error) {
	rows, err := s.pool.Query(ctx, `SELECT EXISTS (SELECT FROM person_sessions
		WHERE id = $1 AND revoked_at IS NULL AND authenticated_at > holdpoint_now() - $2 * interval '1 microsecond')`, id, within.Microseconds())
	if err != nil {
		return false, fmt.Errorf("check age of session %s: %w", id, err)
	}
	fresh, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil {
		return false, fmt.Errorf("check age of session %s: %w", id, err)
	}
	return fresh, nil
}

// Reauthenticated records that the person of a session proved again who they are. ErrUnauthenticated when
// the session is over, or another person's.
func (s *Service) Reauthenticated(ctx context.Context, id, person uuid.UUID, by Method) (Session, error) {
	var session Session
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		session, err = reauthenticate(ctx, tx, id, person, by, justNow())
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("authenticate session %s again: %w", id, err)
	}
	return session, nil
}

func reauthenticate(ctx context.Context, tx pgx.Tx, id, person uuid.UUID, by Method, proof *time.Duration) (Session, error) {
	rows, err := tx.Query(ctx, `UPDATE person_sessions AS s SET authenticated_at = `+authenticatedAt("$3")+`
		WHERE s.id = $1 AND s.person_id = $2 AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() RETURNING `+sessionColumns,
		id, person, microseconds(proof))
	if err != nil {
		return Session{}, err
	}
	session, err := pgx.CollectExactlyOneRow(rows, scanSession)
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, ErrUnauthenticated
	}
	if err != nil {
		return Session{}, err
	}
	return session, audit.Write(ctx, tx, audit.Event{
		Actor: audit.Person(person), Action: "session.reauthenticated", Subject: person,
		Data: map[string]any{"session": id, "method": by},
	})
}

// Sessions returns the sessions of a person that are not over, newest first.
func (s *Service) Sessions(ctx context.Context, person uuid.UUID) ([]Session, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+sessionColumns+` FROM person_sessions s LEFT JOIN person_tokens t ON t.id = s.token_id
		WHERE s.person_id = $1 AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() AND (t.id IS NULL OR `+tokenValid+`)
		ORDER BY s.id DESC`, person)
	if err != nil {
		return nil, fmt.Errorf("list sessions of %s: %w", person, err)
	}
	sessions, err := pgx.CollectRows(rows, scanSession)
	if err != nil {
		return nil, fmt.Errorf("list sessions of %s: %w", person, err)
	}
	return sessions, nil
}

// EndSession ends one session of a person, everywhere at once. ErrNotFound when they have none of this id.
func (s *Service) EndSession(ctx context.Context, by audit.Actor, person, id uuid.UUID) error {
	ended, err := s.endSessions(ctx, by, person, `id = $2`, id)
	if err == nil && ended == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("end session %s: %w", id, err)
	}
	return nil
}

// EndSessions ends all sessions of a person, but for one (uuid.Nil: none), and says how many they were.
func (s *Service) EndSessions(ctx context.Context, by audit.Actor, person, except uuid.UUID) (int, error) {
	ended, err := s.endSessions(ctx, by, person, `id <> $2`, except)
	if err != nil {
		return 0, fmt.Errorf("end sessions of %s: %w", person, err)
	}
	return ended, nil
}

func (s *Service) endSessions(ctx context.Context, by audit.Actor, person uuid.UUID, which string, id uuid.UUID) (int, error) {
	ended := 0
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if ended, err = s.endIn(ctx, tx, by, person, which, id); err != nil || ended == 0 {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err == nil && ended > 0 {
		s.Invalidate()
	}
	return ended, err
}

// endIn ends sessions of a person, and what goes with them. Which of them says a condition about $2.
func (s *Service) endIn(ctx context.Context, tx pgx.Tx, by audit.Actor, person uuid.UUID, which string, id uuid.UUID) (int, error) {
	rows, err := tx.Query(ctx, `UPDATE person_sessions SET revoked_at = holdpoint_now()
		WHERE person_id = $1 AND revoked_at IS NULL AND expires_at > holdpoint_now() AND `+which+` RETURNING id`, person, id)
	if err != nil {
		return 0, err
	}
	ended, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(ended) == 0 {
		return 0, err
	}
	events := make([]audit.Event, len(ended))
	for i, id := range ended {
		events[i] = audit.Event{Actor: by, Action: "session.ended", Subject: person, Data: map[string]any{"session": id}}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return 0, err
	}
	return len(ended), s.tellEnded(ctx, tx, ended)
}

func (s *Service) tellEnded(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
	if s.ended == nil || len(sessions) == 0 {
		return nil
	}
	return s.ended(ctx, tx, sessions)
}

// sessionsKept is how long the row of a session stays that is over: by then no browser asks for it.
const sessionsKept = 24 * time.Hour

// SweepSessions removes what is left of sessions that are over, also of those that nobody ended but time.
func (s *Service) SweepSessions(ctx context.Context) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `DELETE FROM person_sessions
			WHERE least(revoked_at, expires_at) < holdpoint_now() - $1 * interval '1 microsecond' RETURNING id`, sessionsKept.Microseconds())
		if err != nil {
			return err
		}
		swept, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		return s.tellEnded(ctx, tx, swept)
	})
	if err != nil {
		return fmt.Errorf("remove sessions that are over: %w", err)
	}
	return nil
}
