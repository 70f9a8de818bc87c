// Package oncall owns the on-call schedules of teams: the address of each team's calendar, and the fetching and reading of it (table schedules).
// It does not own the shifts that a calendar has, nor what they mean: package identity does.
package oncall

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const (
	purpose      = "schedule" // binds an encrypted URL to its team
	maxSchedules = 100
	maxCalendar  = 1 << 20 // bytes
	interval     = time.Minute
	fetchEvery   = "5 minutes"
	readEvery    = "24 hours" // a calendar that has not changed is read again, because its recurring events go on
	runTime      = 5 * time.Minute
	before       = 24 * time.Hour // how much of the past and of the future is kept
	ahead        = 60 * 24 * time.Hour
	workers      = 4
	maxAttempts  = 1
	timeout      = 20 * time.Second
)

// ErrNotFound means that the team has no schedule.
var ErrNotFound = fault.NotFound("the team has no schedule")

// Service fetches calendars. All fields but Timeout and TLS are required.
type Service struct {
	Pool   *pgxpool.Pool
	Box    *secret.Box
	Logger *slog.Logger
	Now    func() time.Time // for the time that reading takes; all else goes by the database's clock
	// TrustedHosts may serve calendars without https and on private addresses: "host" or "host:port".
	TrustedHosts []string
	Timeout      time.Duration // of a request. Zero: 20 s
	TLS          *tls.Config   // of connections. Nil: Go's defaults
}

// Schedule is the on-call schedule of a team. Its URL is a credential and is never shown.
type Schedule struct {
	Team        string
	Host        string // of the URL
	CreatedAt   time.Time
	CreatedBy   uuid.UUID  // uuid.Nil: the system
	CheckedAt   *time.Time // the last attempt that succeeded; nil: none
	FailedSince *time.Time // nil: the last attempt succeeded, or there was none
	Error       string     // of the last attempt
}

// Set sets the address of a team's calendar, and fetches it. Error: *[fault.InvalidError].
func (s *Service) Set(ctx context.Context, by audit.Actor, team, address string) (Schedule, error) {
	host, err := s.check(team, address)
	if err != nil {
		return Schedule{}, fmt.Errorf("set schedule: %w", err)
	}
	sealed, err := s.Box.Seal([]byte(address), secret.For(purpose, idOf(team)))
	if err != nil {
		return Schedule{}, fmt.Errorf("set schedule of team %s: %w", team, err)
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var others int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM schedules WHERE team <> $1`, team).Scan(&others); err != nil {
			return err
		}
		if others >= maxSchedules {
			return fault.Invalid("team", fmt.Sprintf("there are %d schedules already; delete one first", others))
		}
		// The shifts of the former calendar stay until the new one was read.
		_, err := tx.Exec(ctx, `INSERT INTO schedules (id, team, sealed, hint, created_by) VALUES ($5, $1, $2, $3, $4)
			ON CONFLICT (team) DO UPDATE SET sealed = excluded.sealed, hint = excluded.hint, created_by = excluded.created_by, created_at = holdpoint_now(),
				etag = '', modified = '', fetched_at = NULL, checked_at = NULL, failed_since = NULL, error = NULL, next_at = holdpoint_now()`,
			team, sealed, host, postgres.OrNull(by.ID), idOf(team))
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.ScheduleSet, Subject: idOf(team), Data: map[string]any{"name": team, "host": host}})
	})
	if err != nil {
		return Schedule{}, fmt.Errorf("set schedule of team %s: %w", team, err)
	}
	return s.Fetch(ctx, team)
}

// check validates the fields and returns the URL's host.
func (s *Service) check(team, address string) (string, error) {
	if err := identity.CheckTeam(team); err != nil {
		return "", err
	}
	u, err := receiver.ParseURL(address)
	if err != nil {
		return "", fault.Invalid("url", err.Error())
	}
	if err := receiver.CheckURL(s.TrustedHosts, u); err != nil {
		return "", fault.Invalid("url", u.Host+" "+err.Error())
	}
	return u.Host, nil
}

// idOf returns the id of a team's schedule.
func idOf(team string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:schedule:"+team))
}

// Delete deletes the schedule of a team, and its shifts. Error: [ErrNotFound].
func (s *Service) Delete(ctx context.Context, by audit.Actor, team string) error {
	if identity.CheckTeam(team) != nil {
		return fmt.Errorf("delete schedule: %w", ErrNotFound)
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM schedules WHERE team = $1`, team)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		if err := identity.ReplaceShifts(ctx, tx, team, nil); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.ScheduleDeleted, Subject: idOf(team), Data: map[string]any{"name": team}})
	})
	if err != nil {
		return fmt.Errorf("delete schedule: %w", err)
	}
	return nil
}

const scheduleColumns = `team, hint, created_at, created_by, checked_at, failed_since, coalesce(error, '')`

func scanSchedule(row pgx.CollectableRow) (Schedule, error) {
	var c Schedule
	var by *uuid.UUID
	err := row.Scan(&c.Team, &c.Host, &c.CreatedAt, &by, &c.CheckedAt, &c.FailedSince, &c.Error)
	c.CreatedBy = postgres.OrNil(by)
	return c, err
}

// List returns all schedules, by team.
func (s *Service) List(ctx context.Context) ([]Schedule, error) {
	found, err := postgres.Collect(ctx, s.Pool, scanSchedule, `SELECT `+scheduleColumns+` FROM schedules ORDER BY team`)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return found, nil
}

// Fetch fetches the calendar of a team now. If that fails, the schedule says so, and its last shifts stay. Error: [ErrNotFound].
func (s *Service) Fetch(ctx context.Context, team string) (Schedule, error) {
	if identity.CheckTeam(team) != nil { // also what PostgreSQL cannot compare
		return Schedule{}, fmt.Errorf("fetch schedule: %w", ErrNotFound)
	}
	due, err := s.claim(ctx, `team = $1`, team)
	if err != nil {
		return Schedule{}, err
	}
	if len(due) == 0 {
		return Schedule{}, fmt.Errorf("fetch schedule: %w", ErrNotFound)
	}
	if err := s.renew(ctx, &due[0]); err != nil {
		return Schedule{}, err
	}
	found, err := postgres.CollectOne(ctx, s.Pool, scanSchedule, `SELECT `+scheduleColumns+` FROM schedules WHERE team = $1`, team)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("read schedule: %w", err)
	}
	return found, nil
}

// job is a calendar to be fetched.
type job struct {
	team           string
	sealed         []byte
	etag, modified string // of the last answer; empty: read it in any case
	now            time.Time
}

// claim returns schedules and puts off their next fetch, so that one process fetches each.
func (s *Service) claim(ctx context.Context, where string, args ...any) ([]job, error) {
	due, err := postgres.Collect(ctx, s.Pool, func(row pgx.CollectableRow) (j job, err error) {
		err = row.Scan(&j.team, &j.sealed, &j.etag, &j.modified, &j.now)
		return j, err
	}, `UPDATE schedules SET next_at = holdpoint_now() + interval '`+fetchEvery+`' WHERE team IN (
			SELECT team FROM schedules WHERE `+where+` ORDER BY next_at FOR UPDATE SKIP LOCKED)
		RETURNING team, sealed, CASE WHEN fetched_at > holdpoint_now() - interval '`+readEvery+`' THEN etag ELSE '' END,
			CASE WHEN fetched_at > holdpoint_now() - interval '`+readEvery+`' THEN modified ELSE '' END, holdpoint_now()`, args...)
	if err != nil {
		return nil, fmt.Errorf("claim schedules: %w", err)
	}
	return due, nil
}

// renew fetches a calendar and stores its shifts, or why that failed.
func (s *Service) renew(ctx context.Context, j *job) error {
	answer, failure := s.fetch(ctx, j)
	var shifts []identity.Shift
	if failure == nil && !answer.unchanged {
		shifts, failure = ReadCalendar(answer.body, j.now.Add(-before), j.now.Add(ahead), s.Now)
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		set, args := `failed_since = coalesce(failed_since, holdpoint_now()), error = $3`, []any{j.team, j.sealed}
		switch {
		case failure != nil:
			args = append(args, failure.Error())
		case answer.unchanged:
			set = `failed_since = NULL, error = NULL, checked_at = holdpoint_now()`
		default:
			set = `failed_since = NULL, error = NULL, checked_at = holdpoint_now(), fetched_at = holdpoint_now(), etag = $3, modified = $4`
			args = append(args, answer.etag, answer.modified)
		}
		tag, err := tx.Exec(ctx, `UPDATE schedules SET `+set+` WHERE team = $1 AND sealed = $2`, args...)
		if err != nil || tag.RowsAffected() == 0 { // another address was set meanwhile
			return err
		}
		if failure == nil && !answer.unchanged {
			return identity.ReplaceShifts(ctx, tx, j.team, shifts)
		}
		return identity.RenameShifts(ctx, tx, j.team)
	})
	if err != nil {
		return fmt.Errorf("store shifts of team %s: %w", j.team, err)
	}
	if failure != nil {
		s.Logger.Warn("an on-call calendar could not be read: the last known shifts count", "team", j.team, "error", failure)
	}
	return nil
}

// answer is a calendar, or the news that it has not changed.
type answer struct {
	body           []byte
	unchanged      bool
	etag, modified string
}

// fetch gets a calendar. The error is for people: it has no part of the URL.
func (s *Service) fetch(ctx context.Context, j *job) (answer, error) {
	address, err := s.Box.Open(j.sealed, secret.For(purpose, idOf(j.team)))
	if err != nil {
		return answer{}, errors.New("its URL cannot be decrypted with this server's key")
	}
	wait := s.Timeout
	if wait == 0 {
		wait = timeout
	}
	client := receiver.NewClient(s.TrustedHosts, wait, s.TLS)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, string(address), http.NoBody)
	if err != nil {
		return answer{}, errors.New("its URL cannot be used")
	}
	r.Header.Set("Accept", "text/calendar")
	r.Header.Set("User-Agent", "Holdpoint")
	if j.etag != "" {
		r.Header.Set("If-None-Match", j.etag)
	}
	if j.modified != "" {
		r.Header.Set("If-Modified-Since", j.modified)
	}
	response, err := client.Do(r)
	if err != nil {
		unsent := receiver.Unsent(err)
		s.Logger.Warn("an on-call calendar could not be fetched", "team", j.team, "error", unsent.Cause)
		return answer{}, unsent.Err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified && j.etag+j.modified != "":
		return answer{unchanged: true}, nil
	case response.StatusCode >= 300 && response.StatusCode < 400 && response.StatusCode != http.StatusNotModified:
		return answer{}, fmt.Errorf("answered HTTP %d, a redirect, which is not followed", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("answered HTTP %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxCalendar+1))
	switch {
	case err != nil:
		return answer{}, errors.New("stopped answering before the end of the calendar")
	case len(body) > maxCalendar:
		return answer{}, fmt.Errorf("answered with more than %d bytes", maxCalendar)
	}
	return answer{body: body, etag: boundHeader(response.Header.Get("ETag")), modified: boundHeader(response.Header.Get("Last-Modified"))}, nil
}

// boundHeader drops a header that is too long to be kept.
func boundHeader(value string) string {
	if len(value) > 200 {
		return ""
	}
	return value
}

// fetchArgs is the job that fetches calendars that are due.
type fetchArgs struct{}

func (fetchArgs) Kind() string { return "oncall_fetch" }

type fetchWorker struct {
	river.WorkerDefaults[fetchArgs]
	service *Service
}

func (w *fetchWorker) Timeout(*river.Job[fetchArgs]) time.Duration { return runTime }

func (w *fetchWorker) Work(ctx context.Context, _ *river.Job[fetchArgs]) error {
	return w.service.FetchDue(ctx)
}

// FetchDue fetches the calendars that are due.
func (s *Service) FetchDue(ctx context.Context) error {
	due, err := s.claim(ctx, `next_at <= holdpoint_now()`)
	if err != nil {
		return err
	}
	errs := make([]error, len(due))
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range due {
		group.Go(func() error {
			errs[i] = s.renew(ctx, &due[i])
			return nil
		})
	}
	_ = group.Wait() // errs has the errors
	return errors.Join(errs...)
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &fetchWorker{service: s})
}

// Start schedules the fetches, in one process at a time.
func (s *Service) Start(client *river.Client[pgx.Tx]) {
	client.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) {
			return fetchArgs{}, &river.InsertOpts{MaxAttempts: maxAttempts}
		},
		&river.PeriodicJobOpts{RunOnStart: true}))
}

// Reseal encrypts again all URLs that are not encrypted with the primary key of the keyset, and returns their number.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	n, err := s.Box.Reseal(ctx, tx, "schedules", purpose)
	if err != nil {
		return 0, fmt.Errorf("reseal schedules: %w", err)
	}
	return n, nil
}

// Receivers returns all calendars with their URLs. It needs no service.
func Receivers(ctx context.Context, db postgres.Querier, box *secret.Box) ([]receiver.Stored, error) {
	found, err := postgres.Collect(ctx, db, func(row pgx.CollectableRow) (receiver.Stored, error) {
		var team, host string
		var sealed []byte
		if err := row.Scan(&team, &host, &sealed); err != nil {
			return receiver.Stored{}, err
		}
		address, err := box.Open(sealed, secret.For(purpose, idOf(team)))
		return receiver.Stored{Name: "schedule of team " + team, Host: host, Address: string(address)}, err
	}, `SELECT team, hint, sealed FROM schedules ORDER BY team`)
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	return found, nil
}
