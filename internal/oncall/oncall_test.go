package oncall_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// feed is a server with a calendar.
type feed struct {
	*httptest.Server
	mu       sync.Mutex
	answer   http.HandlerFunc
	requests []*http.Request
}

func newFeed(t *testing.T) *feed {
	t.Helper()
	f := &feed{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r)
		answer := f.answer
		f.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *feed) set(answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// serve answers with a calendar, and to its ETag that nothing has changed.
func (f *feed) serve(text []byte, etag string) {
	f.set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		if etag != "" && r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(text)
	})
}

// last returns the header of the last request.
func (f *feed) last() http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1].Header
}

type world struct {
	t     *testing.T
	db    *worldtest.DB
	logs  worldtest.Log
	box   *secret.Box
	feed  *feed
	ann   uuid.UUID
	s     *oncall.Service
	olga  audit.Actor
	where string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), feed: newFeed(t), olga: audit.Person(uuid.New())}
	var err error
	w.box, err = secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	worldtest.Check(t, err)
	w.s = &oncall.Service{Pool: w.db.Pool(), Box: w.box, Logger: w.logs.Logger(0), Now: time.Now, TrustedHosts: []string{"127.0.0.1"}, Timeout: 20 * time.Second}
	w.ann = uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, email) VALUES ($1, 'i', 'ann', 'Ann', 'ann@example.com')`, w.ann)
	w.where = w.feed.URL + "/private-5ecret/basic.ics"
	return w
}

// shift makes an event from now, moved by a time.
func shift(who string, from, to time.Duration) string {
	form := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("20060102T150405Z") }
	return eventOf("UID:"+uuid.NewString(), "SUMMARY:"+who, "DTSTART:"+form(from), "DTEND:"+form(to))
}

// onCall returns whom the team has on call now.
func (w *world) onCall() string {
	w.t.Helper()
	var list []string
	rows, _ := w.db.Pool().Query(w.t.Context(), `SELECT label || ' ' || coalesce(array_length(people, 1), 0) FROM shifts
		WHERE team = 'pay' AND starts_at <= holdpoint_now() AND ends_at > holdpoint_now() ORDER BY 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	worldtest.Check(w.t, err)
	return strings.Join(list, ", ")
}

func TestCalendarIsFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.feed.serve(calendarOf(shift("Ann", -time.Hour, time.Hour), shift("Bea", time.Hour, 30*time.Hour)), `"1"`)
	set, err := w.s.Set(ctx, w.olga, "pay", w.where)
	worldtest.Check(t, err)
	if set.FailedSince != nil || set.CheckedAt == nil || set.Host != strings.TrimPrefix(w.feed.URL, "http://") || w.onCall() != "Ann 1" {
		t.Fatalf("%+v, on call %q", set, w.onCall())
	}
	if n := w.db.Count(`schedules WHERE encode(sealed, 'escape') LIKE '%5ecret%'`); n != 0 {
		t.Error("the URL is stored in the clear")
	}
	// It is due after five minutes, and not read again if it has not changed. People who came meanwhile are found.
	worldtest.Check(t, w.s.FetchDue(ctx))
	if w.feed.last().Get("If-None-Match") != "" {
		t.Error("it was fetched before it was due")
	}
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'i', 'bea', 'Bea')`, uuid.New())
	w.db.MoveClock("6 minutes")
	worldtest.Check(t, w.s.FetchDue(ctx))
	if w.feed.last().Get("If-None-Match") != `"1"` {
		t.Errorf("request %v", w.feed.last())
	}
	w.db.MoveClock("2 hours")
	if w.onCall() != "Bea 1" {
		t.Errorf("on call %q", w.onCall())
	}
	// After a day it is read again even if it has not changed.
	w.db.MoveClock("25 hours")
	worldtest.Check(t, w.s.FetchDue(ctx))
	if w.feed.last().Get("If-None-Match") != "" {
		t.Errorf("request %v", w.feed.last())
	}
	worldtest.Check(t, w.s.Delete(ctx, w.olga, "pay"))
	if err := w.s.Delete(ctx, w.olga, "pay"); !errors.Is(err, fault.ErrNotFound) || w.onCall() != "" {
		t.Errorf("deleted: %v, on call %q", err, w.onCall())
	}
	if strings.Contains(w.logs.String(), "5ecret") {
		t.Errorf("the log has the URL: %s", w.logs.String())
	}
}

// If the calendar cannot be read, the last known shifts stay, and the schedule says since when and why.
func TestFailingCalendarKeepsItsShifts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.feed.serve(calendarOf(shift("Ann", -time.Hour, time.Hour)), "")
	_, err := w.s.Set(ctx, w.olga, "pay", w.where)
	worldtest.Check(t, err)
	var since *time.Time
	for _, c := range []struct {
		want   string
		answer http.HandlerFunc
	}{
		{"answered HTTP 503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }},
		{"a redirect, which is not followed", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }},
		{"must be an iCalendar file", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
		{"more than 1048576 bytes", func(w http.ResponseWriter, _ *http.Request) {
			for range 300 {
				_, _ = w.Write([]byte(strings.Repeat("x", 4096)))
			}
		}},
		{"could not be reached", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}},
		{"answered HTTP 304", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }},
	} {
		w.feed.set(c.answer)
		found, err := w.s.Fetch(ctx, "pay")
		worldtest.Check(t, err)
		if !strings.Contains(found.Error, c.want) || found.FailedSince == nil || w.onCall() != "Ann 1" {
			t.Errorf("%s: %+v, on call %q", c.want, found, w.onCall())
			continue
		}
		if since != nil && !since.Equal(*found.FailedSince) {
			t.Errorf("failing since %s, and then since %s", since, found.FailedSince)
		}
		since = found.FailedSince
		if strings.Contains(found.Error+w.logs.String(), "5ecret") {
			t.Errorf("%s: the URL is shown", c.want)
		}
	}
	w.feed.serve(calendarOf(), "")
	if found, err := w.s.Fetch(ctx, "pay"); err != nil || found.FailedSince != nil || found.Error != "" || w.onCall() != "" {
		t.Errorf("%+v, %v, on call %q", found, err, w.onCall())
	}
}

// Two processes share the work: each calendar is fetched once.
func TestOneProcessFetches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.feed.serve(calendarOf(), "")
	for i := range 5 {
		_, err := w.s.Set(t.Context(), w.olga, fmt.Sprint("team ", i), w.where)
		worldtest.Check(t, err)
	}
	before := len(w.feed.requests)
	w.db.MoveClock("6 minutes")
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := w.s.FetchDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := len(w.feed.requests) - before; n != 5 {
		t.Errorf("%d requests", n)
	}
}

func TestScheduleIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for address, want := range map[string]string{
		"ftp://example.com/x": "url", "http://example.com/x.ics": "url", "https://169.254.169.254/x": "url", "https://localhost/x": "url", "": "url", "https://u:p@example.com/": "url",
	} {
		_, err := w.s.Set(t.Context(), w.olga, "pay", address)
		var wrong *fault.InvalidError
		if !errors.As(err, &wrong) || wrong.Fields[0].Name != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	var wrong *fault.InvalidError
	if _, err := w.s.Set(t.Context(), w.olga, "a\nb", w.where); !errors.As(err, &wrong) || wrong.Fields[0].Name != "team" {
		t.Errorf("a team with two lines: %v", err)
	}
	if _, err := w.s.Fetch(t.Context(), "nobody's"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("no schedule: %v", err)
	}
}

func TestReseal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.feed.serve(calendarOf(), "")
	_, err := w.s.Set(t.Context(), w.olga, "pay", w.where)
	worldtest.Check(t, err)
	stored, err := oncall.Receivers(t.Context(), w.db.Pool(), w.box)
	worldtest.Check(t, err)
	if len(stored) != 1 || stored[0].Address != w.where {
		t.Errorf("%+v", stored)
	}
	worldtest.Check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		n, err := w.s.Reseal(t.Context(), tx)
		if n != 0 {
			t.Errorf("%d were sealed again with the same key", n)
		}
		return err
	}))
}
