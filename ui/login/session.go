package login

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// Keys of a browser session's data.
const (
	keySession    = "session"    // id of the session in package identity
	keyFlows      = "flows"      // pending sign-ins with providers
	keyInvitation = "invitation" // redeemed by a sign-in with a provider
	keyNext       = "next"       // where to go after a sign-in link
)

// currentSession returns the id of the session in ctx; uuid.Nil: no one is signed in.
func (l *Login) currentSession(ctx context.Context) (uuid.UUID, error) {
	text := l.sessions.GetString(ctx, keySession)
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, fmt.Errorf("read session: %w", err)
	}
	return id, nil
}

// currentAccess returns what the session in ctx allows now.
func (l *Login) currentAccess(ctx context.Context) (identity.Access, bool, error) {
	id, err := l.currentSession(ctx)
	if err != nil || id == uuid.Nil {
		return identity.Access{}, false, err
	}
	access, err := l.cfg.Identity.SessionAccess(ctx, id)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return identity.Access{}, false, l.sessions.Destroy(ctx)
	}
	return access, err == nil, err
}

// beginSession gives the browser a new cookie for a new session, and ends the session that it had before.
func (l *Login) beginSession(ctx context.Context, session identity.Session) error {
	before, err := l.currentSession(ctx)
	if err != nil {
		return err
	}
	if before != uuid.Nil {
		if access, err := l.cfg.Identity.SessionAccess(ctx, before); err == nil {
			err = l.cfg.Identity.EndSession(ctx, audit.Person(access.Person.ID), access.Person.ID, before)
			if err != nil && !errors.Is(err, identity.ErrNotFound) {
				return err
			}
		}
	}
	l.sessions.Remove(ctx, keyFlows)
	l.sessions.Remove(ctx, keyNext)
	l.sessions.Put(ctx, keySession, session.ID.String())
	return l.renewCookie(ctx, session)
}

// renewCookie gives the browser a new cookie for its session.
func (l *Login) renewCookie(ctx context.Context, session identity.Session) error {
	if err := l.sessions.RenewToken(ctx); err != nil {
		return fmt.Errorf("renew the token of session %s: %w", session.ID, err)
	}
	l.sessions.SetDeadline(ctx, session.ExpiresAt.UTC())
	return nil
}

// sweepSessions deletes expired sessions. It runs at each sign-in, as often as sessions are made.
func (l *Login) sweepSessions(ctx context.Context) {
	_, err := l.cfg.Pool.Exec(ctx, `DELETE FROM sessions WHERE expiry < current_timestamp`)
	if err = errors.Join(err, l.cfg.Identity.SweepSessions(ctx)); err != nil {
		l.cfg.Logger.Warn("delete expired sessions", "error", err)
	}
}

// sessionStore implements scs.Store by the table sessions. sweepSessions deletes expired ones.
type sessionStore struct{ pool *pgxpool.Pool }

// Find returns the data of a session that has not expired.
func (s sessionStore) Find(token string) (data []byte, found bool, err error) {
	err = s.pool.QueryRow(context.Background(), `SELECT data FROM sessions WHERE token = $1 AND current_timestamp < expiry`, token).Scan(&data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("find session: %w", err)
	}
	return data, true, nil
}

// Commit inserts or replaces a session.
func (s sessionStore) Commit(token string, data []byte, expiry time.Time) error {
	_, err := s.pool.Exec(context.Background(), `INSERT INTO sessions (token, data, expiry) VALUES ($1, $2, $3)
		ON CONFLICT (token) DO UPDATE SET data = EXCLUDED.data, expiry = EXCLUDED.expiry`, token, data, expiry)
	if err != nil {
		return fmt.Errorf("store session: %w", err)
	}
	return nil
}

// Delete deletes a session.
func (s sessionStore) Delete(token string) error {
	if _, err := s.pool.Exec(context.Background(), `DELETE FROM sessions WHERE token = $1`, token); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}
