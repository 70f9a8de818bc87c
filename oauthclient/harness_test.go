package oauthclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/oauthclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// base is a database with people, and records all logs and secrets of its tests.
type base struct {
	db     *worldtest.DB
	box    *secret.Box
	people *identity.Service
	log    worldtest.Log
	clock  *clock
	known  *secrets
	alice  uuid.UUID
	bob    uuid.UUID

	mu      sync.Mutex
	issuers map[string]bool // that the database knows
}

// newIssuer starts an authorization server that the database does not know. The port of an earlier one may come again.
func (b *base) newIssuer(t testing.TB) *authServer {
	t.Helper()
	for {
		as := newAuthServer(t, b.known)
		b.mu.Lock()
		known := b.issuers[as.issuer()]
		b.issuers[as.issuer()] = true
		b.mu.Unlock()
		if !known {
			return as
		}
	}
}

// world is a protected skill server, its authorization server, and a service.
type world struct {
	*base
	t       testing.TB
	skill   *skillServer
	as      *authServer
	key     oauthclient.Key
	perUser bool
	// settings of the skill, as an operator changes them.
	settings oauthclient.Settings
	revision int64
	url      string   // of the skill
	public   []string // hosts in it that must stay public
	service  *oauthclient.Service
	// connected are the keys that the service reported.
	connected *strings.Builder
}

func newBase(t testing.TB) *base {
	t.Helper()
	b := &base{db: worldtest.NewDB(t), clock: &clock{}, known: newSecrets(), issuers: map[string]bool{}}
	var err error
	b.box, err = secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	b.people, err = identity.New(identity.Config{Pool: b.db.Pool(), Logger: b.logger(), Now: b.clock.now})
	check(t, err)
	t.Cleanup(b.people.Close)
	t.Cleanup(func() { b.findLeaks(t) })
	b.alice, b.bob = b.newPerson(t, "alice"), b.newPerson(t, "bob")
	return b
}

func (b *base) logger() *slog.Logger { return b.log.Logger(slog.LevelDebug) }

func (b *base) newPerson(t testing.TB, name string) uuid.UUID {
	t.Helper()
	_, credential, err := b.people.CreateToken(t.Context(), uuid.Nil, name, []identity.Role{identity.Operator}, nil)
	check(t, err)
	access, err := b.people.Authenticate(t.Context(), credential)
	check(t, err)
	return access.Person.ID
}

// newWorld makes a world with its own database.
func newWorld(t testing.TB, change ...func(*oauthclient.Config)) *world {
	t.Helper()
	return newBase(t).newWorld(t, change...)
}

// newWorld adds a skill with its own servers to a database.
func (b *base) newWorld(t testing.TB, change ...func(*oauthclient.Config)) *world {
	t.Helper()
	w := &world{base: b, t: t, key: oauthclient.Key{SkillID: uuid.New()}, revision: 1, connected: &strings.Builder{}}
	w.as = b.newIssuer(t)
	w.skill = newSkillServer(t, w.as)
	w.url = w.skill.URL + "/mcp"
	w.service = w.startService(t, change...)
	return w
}

// startService starts another service on the database, as another process would.
func (w *world) startService(t testing.TB, change ...func(*oauthclient.Config)) *oauthclient.Service {
	t.Helper()
	cfg := oauthclient.Config{
		Pool: w.db.Pool(), Box: w.box, Identity: w.people, Logger: w.logger(), Now: w.clock.now,
		PublicURL: "https://holdpoint.test", TrustedHosts: []string{w.as.host()}, Timeout: 30 * time.Second,
		Target: func(_ context.Context, key oauthclient.Key) (oauthclient.Target, error) {
			if key.SkillID != w.key.SkillID {
				return oauthclient.Target{}, oauthclient.ErrNotFound
			}
			target := w.target()
			target.Principal = key.Principal
			return target, nil
		},
		Connected: func(_ context.Context, _ pgx.Tx, key oauthclient.Key) error {
			fmt.Fprintf(w.connected, "%s ", key.SkillID)
			return nil
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := oauthclient.New(cfg)
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

func (w *world) target() oauthclient.Target {
	return oauthclient.Target{
		Key: w.key, Skill: "web", PerUser: w.perUser, Revision: w.revision, URL: w.url, PublicHosts: w.public, Settings: w.settings,
	}
}

func (w *world) handler() *oauthclient.Handler { return w.service.Handler(w.target()) }

// runJobs runs the job queue of the world's service until the test ends.
func (w *world) runJobs() {
	w.t.Helper()
	client := w.db.NewQueue(w.logger(), uuid.New(), map[string]int{river.QueueDefault: 5}, w.service)
	w.service.Start(client)
	ctx, stop := context.WithCancel(context.Background())
	check(w.t, client.Start(ctx))
	w.t.Cleanup(func() {
		check(w.t, client.Stop(context.Background()))
		stop()
	})
}

// answer is the result of a request to the skill's server.
type answer struct {
	status int
	err    error
	rounds int
	signed oauthclient.Signed
}

// sendRequest sends a request to the skill's server as package mcptool does: signed, and again while there is a better token.
func (w *world) sendRequest() answer { return w.sendWith(w.t.Context(), w.service, w.url) }

func (w *world) sendWith(ctx context.Context, s *oauthclient.Service, address string) answer {
	h := s.Handler(w.target())
	for round := 1; ; round++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(`{}`))
		check(w.t, err)
		signed, err := h.Sign(ctx, r)
		if err != nil {
			return answer{err: w.recordError(err), rounds: round}
		}
		response, err := w.skill.Client().Do(r)
		if err != nil {
			return answer{err: err, rounds: round}
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		a := answer{status: response.StatusCode, rounds: round, signed: signed}
		if a.status < 300 {
			h.Accepted(ctx, "tools/list", signed)
		}
		if round >= oauthclient.MaxRounds {
			h.GaveUp(ctx, response.Header)
			return a
		}
		again, err := h.Answered(ctx, r, "tools/list", response.StatusCode, response.Header, signed)
		if a.err = w.recordError(err); err != nil || !again {
			return a
		}
	}
}

// challenge reports a refusal to the service that no server sent.
func (w *world) challenge(status int, header ...string) error {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url, nil)
	check(w.t, err)
	_, err = w.handler().Answered(w.t.Context(), r, "tools/list", status, http.Header{"Www-Authenticate": header}, oauthclient.Signed{})
	return w.recordError(err)
}

// beginConnection starts to connect and returns where the person is sent.
func (w *world) beginConnection() (*url.URL, error) { return w.beginAs(w.alice, "") }

func (w *world) beginAs(by uuid.UUID, issuer string) (*url.URL, error) {
	w.t.Helper()
	key := w.key
	if w.perUser {
		key.Principal = by
	}
	begun, err := w.service.Begin(w.t.Context(), by, key, issuer)
	if w.recordError(err) != nil {
		return nil, err
	}
	u, err := url.Parse(begun.URL)
	check(w.t, err)
	w.known.add("state", u.Query().Get("state"))
	return u, nil
}

// connect connects Alice, up to the first error.
func (w *world) connect() error {
	w.t.Helper()
	u, err := w.beginConnection()
	if err != nil {
		return err
	}
	return w.receiveCallback(w.as.giveConsent(w.t, u))
}

func (w *world) receiveCallback(values url.Values) error {
	w.t.Helper()
	_, err := w.service.Callback(w.t.Context(), w.alice, values)
	return w.recordError(err)
}

// mustConnect connects and sends a request.
func (w *world) mustConnect() {
	w.t.Helper()
	check(w.t, w.connect())
	w.mustSend()
}

func (w *world) mustSend() {
	w.t.Helper()
	if a := w.sendRequest(); a.err != nil || a.status != http.StatusOK {
		w.t.Fatalf("request: status %d, error %v", a.status, a.err)
	}
}

// advanceClock moves all clocks.
func (w *world) advanceClock(d time.Duration) {
	w.t.Helper()
	w.clock.move(d)
	w.db.Exec(`UPDATE clock_offset SET value = value + $1 * interval '1 second'`, d.Seconds())
}

// loadConnection returns the connection in the database.
func (w *world) loadConnection() oauthclient.Connection {
	w.t.Helper()
	list, _, err := w.service.List(w.t.Context(), oauthclient.Filter{SkillID: w.key.SkillID})
	check(w.t, err)
	if len(list) != 1 {
		w.t.Fatalf("%d connections, want one", len(list))
	}
	return list[0]
}

func wantNeed(t testing.TB, err error, need oauthclient.Need) *oauthclient.NeedsConnectionError {
	t.Helper()
	var needs *oauthclient.NeedsConnectionError
	if !errors.As(err, &needs) || needs.Need != need {
		t.Fatalf("got %v, want the need %q", err, need)
	}
	return needs
}

func wantError(t testing.TB, err error, gist ...string) {
	t.Helper()
	if _, ok := errors.AsType[*oauthclient.Error](err); !ok {
		t.Fatalf("got %v (%T), want an *oauthclient.Error", err, err)
	}
	for _, part := range gist {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// clock is time.Now with an offset.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}
