package identity_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

const day = 24 * time.Hour

// byLink signs a person in with a sign-in link.
func byLink(t *testing.T, s *identity.Service, name string, list ...identity.Role) identity.Session {
	t.Helper()
	link, err := s.CreateSignInLink(t.Context(), name, list, time.Minute)
	check(t, err)
	access, err := s.UseSignInLink(t.Context(), link)
	check(t, err)
	session, err := s.BeginSession(t.Context(), access, identity.NewSession{Client: "Firefox", Lifetime: day})
	check(t, err)
	return session
}

// byToken signs a person in with a new personal token.
func byToken(t *testing.T, s *identity.Service, name string, list ...identity.Role) (identity.Session, uuid.UUID) {
	t.Helper()
	id, token, err := s.CreateToken(t.Context(), uuid.Nil, name, list, nil)
	check(t, err)
	access, err := s.Authenticate(t.Context(), token)
	check(t, err)
	session, err := s.BeginSession(t.Context(), access, identity.NewSession{Client: "Firefox", Lifetime: day})
	check(t, err)
	return session, id
}

func hasEnded(t *testing.T, s *identity.Service, id uuid.UUID) bool {
	t.Helper()
	_, err := s.SessionAccess(t.Context(), id)
	if err != nil && !errors.Is(err, identity.ErrUnauthenticated) {
		t.Fatal(err)
	}
	return err != nil
}

func advanceSessions(t *testing.T, db *postgres.DB, by string) {
	t.Helper()
	_, err := db.Pool().Exec(t.Context(), `UPDATE clock_offset SET value = value + $1::interval`, by)
	check(t, err)
}

func TestSessionsAreTheirMethods(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, bootToken)
	link := byLink(t, s, "vera", identity.Reviewer)
	access, err := s.SessionAccess(t.Context(), link.ID)
	check(t, err)
	if !slices.Equal(access.Roles, listRoles(identity.Reviewer)) || access.Person.ID != link.Person || access.Session != link.ID {
		t.Errorf("by link: %+v", access)
	}
	if access.MayActAs("billing") {
		t.Error("a session of a reviewer may act as an agent")
	}
	operator, err := s.SessionAccess(t.Context(), byLink(t, s, "otto", identity.Operator).ID)
	if err != nil || !operator.MayActAs("billing") {
		t.Errorf("by an operator's link: %+v, %v", operator, err)
	}
	token, id := byToken(t, s, "olga", identity.Operator)
	access, err = s.SessionAccess(t.Context(), token.ID)
	if err != nil || !slices.Equal(access.Roles, listRoles(identity.Operator)) || !access.MayActAs("billing") {
		t.Errorf("by token: %+v, %v", access, err)
	}
	check(t, s.RevokeToken(t.Context(), uuid.Nil, id))
	if !hasEnded(t, s, token.ID) {
		t.Error("the session outlived its token")
	}
	boot, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	session, err := s.BeginSession(t.Context(), boot, identity.NewSession{Lifetime: day})
	check(t, err)
	if access, err = s.SessionAccess(t.Context(), session.ID); err != nil || len(access.Roles) != 2 || session.Method != identity.ByToken {
		t.Errorf("by bootstrap: %+v, %v", access, err)
	}
	if !hasEnded(t, newService(t, db, ""), session.ID) {
		t.Error("the bootstrap session outlived its token")
	}
	if !hasEnded(t, newService(t, db, bootToken+"-another"), session.ID) {
		t.Error("the bootstrap session goes on with another token")
	}
	if hasEnded(t, newService(t, db, bootToken), session.ID) {
		t.Error("the bootstrap session ended with a restart")
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	first, second, third := byLink(t, s, "vera", identity.Reviewer), byLink(t, s, "vera", identity.Reviewer), byLink(t, s, "vera", identity.Reviewer)
	other := byLink(t, s, "olga", identity.Operator)
	by := audit.Person(other.Person)
	if err := s.EndSession(t.Context(), by, other.Person, first.ID); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("as another person's: %v", err)
	}
	check(t, s.EndSession(t.Context(), by, first.Person, first.ID))
	if err := s.EndSession(t.Context(), by, first.Person, first.ID); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	if !hasEnded(t, s, first.ID) || hasEnded(t, s, second.ID) {
		t.Error("the wrong session ended")
	}
	if n, err := s.EndSessions(t.Context(), by, first.Person, third.ID); n != 1 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	left, err := s.Sessions(t.Context(), first.Person)
	check(t, err)
	if len(left) != 1 || left[0] != third {
		t.Errorf("left: %+v", left)
	}
	if n, err := s.EndSessions(t.Context(), by, first.Person, uuid.Nil); n != 1 || err != nil || !hasEnded(t, s, third.ID) {
		t.Errorf("ended %d, %v", n, err)
	}
	if ended := auditOf(t, db, first.Person); !slices.Equal(ended[:3], []string{"session.ended", "session.ended", "session.ended"}) {
		t.Errorf("audit %v", ended)
	}
	advanceSessions(t, db, "1 day")
	s.Invalidate()
	if !hasEnded(t, s, other.ID) {
		t.Error("a session outlived its time")
	}
	check(t, s.SweepSessions(t.Context()))
	if rows := dumpTable(t, db, "person_sessions"); !strings.Contains(rows, other.ID.String()) {
		t.Errorf("swept at once: %s", rows)
	}
	advanceSessions(t, db, "25 hours")
	check(t, s.SweepSessions(t.Context()))
	if rows := dumpTable(t, db, "person_sessions"); rows != "" {
		t.Errorf("not swept: %s", rows)
	}
}

func TestEndOfSessionReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	here, there := newService(t, db, ""), newService(t, db, "")
	dropped := listen(t, db, there.Invalidate)
	session := byLink(t, here, "vera", identity.Reviewer)
	<-dropped // of the link
	if hasEnded(t, there, session.ID) {
		t.Fatal("the other process does not know the session")
	}
	changed := there.Changed()
	check(t, here.EndSession(t.Context(), audit.System(), session.Person, session.ID))
	<-changed
	if !hasEnded(t, there, session.ID) {
		t.Error("it goes on in the other process")
	}
}

// Every end of a session is reported: by an operator, by the end of its token, or by the sweep of expired sessions.
func TestEndsOfSessionsAreTold(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	var told []uuid.UUID
	s, err := identity.New(identity.Config{
		Pool: db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		SessionsEnded: func(_ context.Context, _ pgx.Tx, sessions []uuid.UUID) error {
			told = append(told, sessions...)
			return nil
		},
	})
	check(t, err)
	t.Cleanup(s.Close)
	first, token := byToken(t, s, "vera", identity.Reviewer)
	other, _ := byToken(t, s, "vera", identity.Reviewer)
	check(t, s.RevokeToken(t.Context(), uuid.Nil, token))
	if !slices.Contains(told, first.ID) || !hasEnded(t, s, first.ID) || hasEnded(t, s, other.ID) {
		t.Errorf("told of %v, not of %s", told, first.ID)
	}
	if ended := auditOf(t, db, first.Person); !slices.Contains(ended, "session.ended") {
		t.Errorf("audit %v", ended)
	}
	told = nil
	advanceSessions(t, db, "49 hours")
	check(t, s.SweepSessions(t.Context()))
	if !slices.Contains(told, other.ID) {
		t.Errorf("told of %v, not of %s", told, other.ID)
	}
}

func TestAuthenticatingAgain(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	session := byLink(t, s, "vera", identity.Reviewer)
	fresh := func() bool {
		t.Helper()
		fresh, err := s.SessionFresh(t.Context(), session.ID, 5*time.Minute)
		check(t, err)
		return fresh
	}
	if !fresh() {
		t.Error("not fresh at its beginning")
	}
	advanceSessions(t, db, "301 seconds")
	if fresh() {
		t.Error("fresh after five minutes")
	}
	other := byLink(t, s, "olga", identity.Reviewer)
	if _, err := s.Reauthenticated(t.Context(), session.ID, other.Person, identity.ByLink); !errors.Is(err, identity.ErrUnauthenticated) || fresh() {
		t.Errorf("by another person: %v", err)
	}
	again, err := s.Reauthenticated(t.Context(), session.ID, session.Person, identity.ByLink)
	check(t, err)
	if !fresh() || !again.ExpiresAt.Equal(session.ExpiresAt) || again.AuthenticatedAt.Sub(session.AuthenticatedAt) < 5*time.Minute {
		t.Errorf("again: %+v", again)
	}
	check(t, s.EndSession(t.Context(), audit.System(), session.Person, session.ID))
	if _, err := s.Reauthenticated(t.Context(), session.ID, session.Person, identity.ByLink); !errors.Is(err, identity.ErrUnauthenticated) || fresh() {
		t.Errorf("after its end: %v", err)
	}
}

func TestClientIsKeptAsTheDatabaseTakesIt(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	link, err := s.CreateSignInLink(t.Context(), "vera", listRoles(identity.Reviewer), time.Minute)
	check(t, err)
	access, err := s.UseSignInLink(t.Context(), link)
	check(t, err)
	session, err := s.BeginSession(t.Context(), access, identity.NewSession{Client: "a\x00b\xff" + strings.Repeat("é", 200), Lifetime: day})
	check(t, err)
	if !strings.HasPrefix(session.Client, "a\uFFFDb\uFFFDé") || len(session.Client) > 300 {
		t.Errorf("client %q", session.Client)
	}
}

func TestReviewersAreAllWhoCouldDecide(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	reviewers := func() []uuid.UUID {
		t.Helper()
		found, err := s.Reviewers(context.WithoutCancel(t.Context()))
		check(t, err)
		ids := []uuid.UUID{}
		for _, e := range found {
			ids = append(ids, e.Person)
		}
		return ids
	}
	want := func(when string, people ...uuid.UUID) {
		t.Helper()
		got := reviewers()
		slices.SortFunc(people, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
		if !slices.Equal(got, people) {
			t.Errorf("%s: %v, want %v", when, got, people)
		}
	}
	want("at first", []uuid.UUID{}...)

	olga, _ := byToken(t, s, "olga", identity.Operator)
	want("an operator's token", []uuid.UUID{}...)
	vera, token := byToken(t, s, "vera", identity.Reviewer)
	want("a token", vera.Person)
	check(t, s.RevokeToken(t.Context(), uuid.Nil, token))
	want("a revoked token", []uuid.UUID{}...)

	_, err := s.CreateSignInLink(t.Context(), "vera", listRoles(identity.Reviewer), time.Minute)
	check(t, err)
	want("a link", vera.Person)
	session := byLink(t, s, "rita", identity.Reviewer, identity.Operator)
	want("a session", vera.Person, session.Person)
	advanceSessions(t, db, "2 minutes")
	s.Invalidate()
	want("an expired link", session.Person)
	check(t, s.EndSession(t.Context(), audit.System(), session.Person, session.ID))
	want("a session that is over", []uuid.UUID{}...)

	boot := newService(t, db, bootToken)
	found, err := boot.Reviewers(t.Context())
	if err != nil || len(found) != 1 || found[0].Person == olga.Person {
		t.Errorf("bootstrap: %+v, %v", found, err)
	}
}

// TestNamesFromOutsideAreVisible: names come from an identity provider or its user.
func TestNamesFromOutsideAreVisible(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	session, err := s.SignIn(t.Context(), identity.Claims{
		Issuer: issuer, Subject: "s", Name: "al\u115fice\u2800", Email: "a\u3164@example.com", Roles: []identity.Role{identity.Reviewer},
	}, identity.NewSession{Lifetime: time.Hour})
	check(t, err)
	people, err := s.People(t.Context(), []uuid.UUID{session.Person})
	check(t, err)
	if p := people[session.Person]; p.Name != `al\u115fice\u2800` || p.Email != `a\u3164@example.com` {
		t.Errorf("shown as %q, %q", p.Name, p.Email)
	}
}
