package identity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// issuer is the configured identity provider.
const issuer = "https://login.example.com"

const bootToken = "bootstrap-token-of-at-least-32-letters"

func newService(t *testing.T, db *postgres.DB, bootstrap string) *identity.Service {
	t.Helper()
	s, err := identity.New(identity.Config{
		Pool: db.Pool(), BootstrapToken: bootstrap, Issuers: []string{issuer}, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func listRoles(list ...identity.Role) []identity.Role { return list }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	ctx := t.Context()
	id, token, err := s.CreateToken(ctx, uuid.Nil, "Vera", listRoles(identity.Reviewer), []string{"billing"})
	check(t, err)
	access, err := s.Authenticate(ctx, token)
	check(t, err)
	switch {
	case access.Person.Name != "Vera" || access.Person.Issuer != identity.LocalIssuer:
		t.Errorf("person %+v", access.Person)
	case !access.Has(identity.Reviewer) || access.Has(identity.Operator):
		t.Errorf("roles %v", access.Roles)
	case !access.MayActAs("billing") || access.MayActAs("other"):
		t.Errorf("agents %v", access.Agents)
	}
	_, second, err := s.CreateToken(ctx, access.Person.ID, "Vera", listRoles(identity.Operator), nil)
	check(t, err)
	other, err := s.Authenticate(ctx, second)
	check(t, err)
	if other.Person.ID != access.Person.ID {
		t.Error("a second token made a second person")
	}
	check(t, s.RevokeToken(ctx, access.Person.ID, id))
	if _, err := s.Authenticate(ctx, token); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("revoked: %v", err)
	}
	if err := s.RevokeToken(ctx, access.Person.ID, id); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	actions := auditOf(t, db, access.Person.ID)
	if want := []string{"token.revoked", "token.created", "token.created", "person.created"}; !slices.Equal(actions, want) {
		t.Errorf("audit %v, want %v", actions, want)
	}
	stored := dumpTable(t, db, "person_tokens") + dumpTable(t, db, "audit_events")
	if strings.Contains(stored, token[8:]) {
		t.Error("the token is stored")
	}
}

func auditOf(t *testing.T, db *postgres.DB, subject uuid.UUID) []string {
	t.Helper()
	events, err := audit.List(t.Context(), db.Pool(), audit.Filter{Subject: subject})
	check(t, err)
	var actions []string
	for _, e := range events {
		actions = append(actions, string(e.Action))
	}
	return actions
}

func dumpTable(t *testing.T, db *postgres.DB, table string) string {
	t.Helper()
	var text string
	check(t, db.Pool().QueryRow(t.Context(), `SELECT coalesce(string_agg(x::text, ' '), '') FROM `+table+` x`).Scan(&text))
	return text
}

func TestAgentsOfToken(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	for name, tc := range map[string]struct {
		roles  []identity.Role
		agents []string
		may    bool
	}{
		"operator":       {listRoles(identity.Operator), nil, true},
		"both":           {listRoles(identity.Reviewer, identity.Operator), nil, true},
		"reviewer":       {listRoles(identity.Reviewer), nil, false},
		"other agent":    {listRoles(identity.Operator), []string{"other"}, false},
		"reviewer named": {listRoles(identity.Reviewer), []string{"billing"}, true},
	} {
		_, token, err := s.CreateToken(t.Context(), uuid.Nil, "p", tc.roles, tc.agents)
		check(t, err)
		access, err := s.Authenticate(t.Context(), token)
		check(t, err)
		if access.MayActAs("billing") != tc.may {
			t.Errorf("%s: agents %v", name, access.Agents)
		}
	}
}

func TestInvalidTokensAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	for field, create := range map[string]func() error{
		"name": func() error {
			_, _, err := s.CreateToken(t.Context(), uuid.Nil, " Vera", listRoles(identity.Operator), nil)
			return err
		},
		"roles": func() error {
			_, _, err := s.CreateToken(t.Context(), uuid.Nil, "Vera", listRoles("root"), nil)
			return err
		},
		"agents": func() error {
			_, _, err := s.CreateToken(t.Context(), uuid.Nil, "Vera", listRoles(identity.Operator), []string{""})
			return err
		},
		"ttl": func() error {
			_, err := s.CreateSignInLink(t.Context(), "Vera", listRoles(identity.Operator), 0)
			return err
		},
	} {
		var invalid *fault.InvalidError
		if err := create(); !errors.As(err, &invalid) || invalid.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, _, err := s.CreateToken(t.Context(), uuid.Nil, identity.Bootstrap, listRoles(identity.Operator), nil)
	if _, ok := errors.AsType[*fault.InvalidError](err); !ok {
		t.Errorf("a token for bootstrap: %v", err)
	}
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	var log bytes.Buffer
	s, err := identity.New(identity.Config{
		Pool: db.Pool(), BootstrapToken: bootToken, Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now,
	})
	check(t, err)
	t.Cleanup(s.Close)
	if !strings.Contains(log.String(), "WARN") || strings.Contains(log.String(), bootToken) {
		t.Errorf("log: %s", log.String())
	}
	access, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	if access.Person.Subject != identity.Bootstrap || !access.Has(identity.Operator) || !access.Has(identity.Reviewer) ||
		!access.MayActAs("whatever") {
		t.Errorf("access %+v", access)
	}
	again, err := s.Authenticate(t.Context(), bootToken)
	if err != nil || again.Person.ID != access.Person.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	for _, wrong := range []string{"", "y", bootToken + "x", "hpp_x"} {
		if _, err := s.Authenticate(t.Context(), wrong); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, short := range []string{"x", strings.Repeat("x", 31), strings.Repeat("ü", 31)} {
		_, err := identity.New(identity.Config{Pool: db.Pool(), BootstrapToken: short, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), "must have at least 32") || strings.Contains(err.Error(), short) && len(short) > 1 {
			t.Errorf("a token of %d letters: %v", utf8.RuneCountInString(short), err)
		}
	}
	without := newService(t, db, "")
	if _, err := without.Authenticate(t.Context(), bootToken); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("no longer configured: %v", err)
	}
	if _, err := without.Authenticate(t.Context(), ""); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("empty: %v", err)
	}
}

func TestRevocationReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	here, there := newService(t, db, ""), newService(t, db, "")
	id, token, err := here.CreateToken(t.Context(), uuid.Nil, "Vera", listRoles(identity.Operator), nil)
	check(t, err)
	dropped := listen(t, db, there.Invalidate)
	_, err = there.Authenticate(t.Context(), token)
	check(t, err)
	check(t, here.RevokeToken(t.Context(), uuid.Nil, id))
	<-dropped
	if _, err := there.Authenticate(t.Context(), token); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("after the notice: %v", err)
	}
}

// listen handles notifications as a process does. The channel gets a value for each.
func listen(t *testing.T, db *postgres.DB, invalidate func()) <-chan struct{} {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	connected, dropped := make(chan struct{}, 1), make(chan struct{}, 100)
	var listening sync.WaitGroup
	listening.Go(func() {
		db.Listen(ctx, []postgres.Channel{registry.Channel}, func(postgres.Channel, string) {
			invalidate()
			dropped <- struct{}{}
		}, func() { connected <- struct{}{} })
	})
	t.Cleanup(func() {
		stop()
		listening.Wait()
	})
	<-connected
	return dropped
}

func TestSignInLink(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	link, err := s.CreateSignInLink(t.Context(), "Vera", listRoles(identity.Reviewer), time.Minute)
	check(t, err)
	const rivals = 8
	won := make(chan identity.Access, rivals)
	var all sync.WaitGroup
	for range rivals {
		all.Go(func() {
			access, err := s.UseSignInLink(t.Context(), link)
			switch {
			case err == nil:
				won <- access
			case !errors.Is(err, identity.ErrUnauthenticated):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("the link worked %d times", len(won))
	}
	if access := <-won; access.Person.Name != "Vera" || !access.Has(identity.Reviewer) || access.Has(identity.Operator) {
		t.Errorf("access %+v", access)
	}
	late, err := s.CreateSignInLink(t.Context(), "Vera", listRoles(identity.Reviewer), time.Minute)
	check(t, err)
	_, err = db.Pool().Exec(t.Context(), `UPDATE clock_offset SET value = '61 seconds'`)
	check(t, err)
	if _, err := s.UseSignInLink(t.Context(), late); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("expired: %v", err)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	var ids []uuid.UUID
	for _, name := range []string{"a", "b", "c"} {
		id, _, err := s.CreateToken(t.Context(), uuid.Nil, name, listRoles(identity.Operator), nil)
		check(t, err)
		ids = append(ids, id)
	}
	first, next, err := s.Tokens(t.Context(), uuid.Nil, 2)
	check(t, err)
	rest, end, err := s.Tokens(t.Context(), next, 2)
	check(t, err)
	var got []uuid.UUID
	for _, token := range append(first, rest...) {
		got = append(got, token.ID)
	}
	slices.Reverse(got)
	if !slices.Equal(got, ids) || end != uuid.Nil {
		t.Errorf("tokens %v, end %v", got, end)
	}
	people, next, err := s.Members(t.Context(), identity.MemberFilter{})
	if err != nil || len(people) != 3 || people[0].Name != "c" || next != uuid.Nil {
		t.Errorf("people %v, %v, %v", people, next, err)
	}
	byID, err := s.People(t.Context(), []uuid.UUID{people[1].ID, uuid.New()})
	if err != nil || len(byID) != 1 || byID[people[1].ID].Name != "b" {
		t.Errorf("by id: %v, %v", byID, err)
	}
}
