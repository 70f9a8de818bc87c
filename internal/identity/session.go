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
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Method is how a person authenticated.
type Method string

// The methods.
const (
	ByProvider Method = "oidc"
	ByLink     Method = "link"
	ByToken    Method = "token"
)

// NewSession describes a session to be made.
type NewSession struct {
	Client   string        // the browser's User-Agent
	Lifetime time.Duration // required
}

// Session is a browser in which a person is signed in.
type Session struct {
	ID              uuid.UUID
	Person          uuid.UUID
	Method          Method
	Client          string
	AuthenticatedAt time.Time // when the person last authenticated; zero: unknown
	CreatedAt       time.Time
	ExpiresAt       time.Time
}

// BeginSession begins a session with an access of a personal token, the bootstrap token or a sign-in link.
func (s *Service) BeginSession(ctx context.Context, access Access, n NewSession) (Session, error) {
	begun := sessionRow{person: access.Person.ID, method: ByToken, token: access.token, proof: provedNow(), NewSession: n}
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
	bootstrap *secret.Hash // of the bootstrap token that begins the session
	proof     *time.Duration
}

// provedNow is the proof age of a person who has just authenticated. A nil proof age means unknown.
func provedNow() *time.Duration { return new(time.Duration) }

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
	session, err := postgres.CollectOne(ctx, tx, scanSession, `INSERT INTO person_sessions AS s (id, person_id, method, roles, token_id, client, expires_at, bootstrap_hash, authenticated_at)
		VALUES ($1, $2, $3, $4, $5, $6, holdpoint_now() + $7 * interval '1 microsecond', $8, `+authenticatedAtSQL("$9")+`) RETURNING `+sessionColumns,
		id, row.person, row.method, row.roles, postgres.OrNull(row.token), cleanText(row.Client, maxClient), row.Lifetime.Microseconds(), bootstrap,
		durationMicros(row.proof))
	if err != nil {
		return Session{}, err
	}
	if _, err := tx.Exec(ctx, `UPDATE people SET signed_in_at = holdpoint_now() WHERE id = $1`, row.person); err != nil {
		return Session{}, err
	}
	return session, audit.Write(ctx, tx, audit.Event{
		Actor: audit.Person(row.person), Action: audit.SessionCreated, Subject: row.person,
		Data: map[string]any{"session": id, "method": row.method, "client": session.Client},
	})
}

// SessionAccess returns what a session allows now. It returns [ErrUnauthenticated] if the session or its credential has ended,
// or the person has lost access. From the cache.
func (s *Service) SessionAccess(ctx context.Context, id uuid.UUID) (Access, error) {
	return s.accessBySession.Get(ctx, id, func(ctx context.Context) (Access, error) { return s.loadSession(ctx, id) })
}

// sessionState is a row of a session with the sources of its roles.
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
		WHERE s.id = $1 AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() AND p.blocked_at IS NULL AND (t.id IS NULL OR `+tokenValidSQL+`)`, id)
	if err != nil {
		return Access{}, fmt.Errorf("read session %s: %w", id, err)
	}
	st, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (sessionState, error) {
		var st sessionState
		targets := []any{&st.method, &st.own, &st.agents, &st.claimed, &st.granted, &st.token, &st.ends, &st.boot}
		err := row.Scan(append(targets, st.person.scanTargets()...)...)
		return st, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Access{}, ErrUnauthenticated
	}
	if err != nil {
		return Access{}, fmt.Errorf("read session %s: %w", id, err)
	}
	access := Access{Person: st.person, Agents: st.agents, Session: id, Method: st.method}
	switch { // a session that a token began has exactly the rights of the token, so a stolen token gives no more
	case st.method == ByToken && st.token != nil && s.tokensOff:
		return Access{}, ErrUnauthenticated
	case st.method == ByToken && st.token != nil:
		access.Roles, access.token, access.Ends = st.own, *st.token, *st.ends
	case st.method == ByToken:
		if s.bootstrap == nil || !bytes.Equal(st.boot, s.bootstrap[:]) {
			return Access{}, ErrUnauthenticated // the bootstrap token has changed
		}
		access.Roles, access.Agents = s.bootstrapRoles(), []string{AnyAgent}
	case st.method == ByProvider && !slices.Contains(s.issuers, st.person.Issuer):
		return Access{}, ErrUnauthenticated // the provider is no longer configured
	default:
		access.Roles = unionSorted(st.own, st.claimed, st.granted)
		access.Agents = unionSorted(defaultAgents(access.Roles), st.agents)
	}
	if access.Roles, err = s.separateRoles(ctx, s.pool, st.person.ID, access.Roles); err != nil {
		return Access{}, err
	}
	if len(access.Roles) == 0 {
		return Access{}, ErrUnauthenticated
	}
	return access, nil
}

// unionSorted returns the elements of all lists, sorted. It is never nil, which would be NULL in the database.
func unionSorted[T ~string](lists ...[]T) []T {
	all := append([]T{}, slices.Concat(lists...)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// SessionFresh reports whether the person of a session authenticated within this time. An authentication of unknown time is
// never fresh.
func (s *Service) SessionFresh(ctx context.Context, id uuid.UUID, within time.Duration) (bool, error) {
	fresh, err := postgres.CollectOne(ctx, s.pool, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM person_sessions
		WHERE id = $1 AND revoked_at IS NULL AND authenticated_at > holdpoint_now() - $2 * interval '1 microsecond')`, id, within.Microseconds())
	if err != nil {
		return false, fmt.Errorf("check age of session %s: %w", id, err)
	}
	return fresh, nil
}

// Reauthenticated records that the person of a session authenticated again. It returns [ErrUnauthenticated] if the session has
// ended or is of another person.
func (s *Service) Reauthenticated(ctx context.Context, id, person uuid.UUID, by Method) (Session, error) {
	var session Session
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		session, err = renewProof(ctx, tx, id, person, by, provedNow())
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("authenticate session %s again: %w", id, err)
	}
	return session, nil
}

func renewProof(ctx context.Context, tx pgx.Tx, id, person uuid.UUID, by Method, proof *time.Duration) (Session, error) {
	session, err := postgres.CollectOne(ctx, tx, scanSession, `UPDATE person_sessions AS s SET authenticated_at = `+authenticatedAtSQL("$3")+`
		WHERE s.id = $1 AND s.person_id = $2 AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() RETURNING `+sessionColumns,
		id, person, durationMicros(proof))
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, ErrUnauthenticated
	}
	if err != nil {
		return Session{}, err
	}
	return session, audit.Write(ctx, tx, audit.Event{
		Actor: audit.Person(person), Action: audit.SessionReauthenticated, Subject: person,
		Data: map[string]any{"session": id, "method": by},
	})
}

// Sessions returns the valid sessions of a person, the newest first.
func (s *Service) Sessions(ctx context.Context, person uuid.UUID) ([]Session, error) {
	sessions, err := postgres.Collect(ctx, s.pool, scanSession, `SELECT `+sessionColumns+` FROM person_sessions s LEFT JOIN person_tokens t ON t.id = s.token_id
		WHERE s.person_id = $1 AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() AND (t.id IS NULL OR `+tokenValidSQL+`)
		ORDER BY s.id DESC`, person)
	if err != nil {
		return nil, fmt.Errorf("list sessions of %s: %w", person, err)
	}
	return sessions, nil
}

// EndSession ends a session of a person in every process. Error: [ErrNotFound].
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

// EndSessions ends all sessions of a person except one (uuid.Nil: none), and returns their number.
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
		if ended, err = s.endSessionsInTx(ctx, tx, by, person, which, id); err != nil || ended == 0 {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err == nil && ended > 0 {
		s.Invalidate()
	}
	return ended, err
}

// endSessionsInTx ends the sessions of a person that the condition which selects; its parameter $2 is id.
func (s *Service) endSessionsInTx(ctx context.Context, tx pgx.Tx, by audit.Actor, person uuid.UUID, which string, id uuid.UUID) (int, error) {
	ended, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `UPDATE person_sessions SET revoked_at = holdpoint_now()
		WHERE person_id = $1 AND revoked_at IS NULL AND expires_at > holdpoint_now() AND `+which+` RETURNING id`, person, id)
	if err != nil || len(ended) == 0 {
		return 0, err
	}
	events := make([]audit.Event, len(ended))
	for i, id := range ended {
		events[i] = audit.Event{Actor: by, Action: audit.SessionEnded, Subject: person, Data: map[string]any{"session": id}}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return 0, err
	}
	return len(ended), s.reportEnded(ctx, tx, ended)
}

func (s *Service) reportEnded(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
	if s.sessionsEnded == nil || len(sessions) == 0 {
		return nil
	}
	return s.sessionsEnded(ctx, tx, sessions)
}

// SweepSessions deletes the rows of sessions that ended or expired long enough ago, unless a legal hold covers them.
func (s *Service) SweepSessions(ctx context.Context) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := legalhold.Guard(ctx, tx); err != nil {
			return err
		}
		swept, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `DELETE FROM person_sessions s
			WHERE least(revoked_at, expires_at) < holdpoint_now() - $1 * interval '1 microsecond'
				AND NOT `+legalhold.HeldSQL("NULL::uuid", "s.created_at", "least(s.revoked_at, s.expires_at)")+` RETURNING id`, s.sessionsKept.Microseconds())
		if err != nil {
			return err
		}
		return s.reportEnded(ctx, tx, swept)
	})
	if err != nil {
		return fmt.Errorf("delete ended sessions: %w", err)
	}
	return nil
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

// authenticatedAtSQL returns the time of the proof whose age, in microseconds, is an argument.
func authenticatedAtSQL(argument string) string {
	return `holdpoint_now() - ` + argument + `::bigint * interval '1 microsecond'`
}

func durationMicros(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	n := max(d.Microseconds(), 0)
	return &n
}

// maxClient bounds the stored User-Agent, in bytes.
const maxClient = 300

// cleanText makes text from outside valid for the database and bounds it.
func cleanText(text string, limit int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
