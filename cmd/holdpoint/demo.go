package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/demo"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
)

const (
	demoPerson      = "demo"
	demoLinkTTL     = 24 * time.Hour
	demoPoll        = 50 * time.Millisecond
	demoFilesFolder = "files"
)

func newDemoCmd(e *cli.Env) *cobra.Command {
	settings := serverSettings{}
	var open bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show Holdpoint at work, in one process",
		Long: `Start everything in one process on a private database: two small skills, and an agent that
reads an inbox (auto-approved) and wants to save what it finds (parked until you decide). Holdpoint
runs the agent's conversation itself; its model is a script, or with OPENAI_BASE_URL or
ANTHROPIC_BASE_URL set a real one (named by OPENAI_MODEL or ANTHROPIC_MODEL).

The server where it saves takes tokens only: the terminal shows how Holdpoint is refused, finds
the authorization server, gets a token for this one server, and the right to write only when
a call that you approved needs it.

The link that is printed signs you in, once. Ctrl-C stops all of it; the next start goes on with
the same data.`,
		Example: "  holdpoint demo --open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			settings.Getenv = e.Getenv
			settings.AllowSelfApproval, settings.HighRiskMaxAge = true, demoLinkTTL
			settings.FilesFolder = "attachments" // files are what the demo's skill saves
			var err error
			if settings.Models, err = modelDefaults(e.Getenv); err != nil {
				return err
			}
			if settings.BootstrapToken, err = settings.Bootstrap.Read(cmd, e); err != nil {
				return err
			}
			if settings.DataDir == "" {
				dir, err := postgres.DefaultDataDir(e.Getenv)
				if err != nil {
					return err
				}
				settings.DataDir = filepath.Join(dir, "demo")
			}
			settings.Path = e.Getenv("PATH")
			if settings.Programs, err = settings.Stdio.PolicyOfDemo(e, settings.DataDir, settings.kept()...); err != nil {
				return err
			}
			return runDemo(ctx, e, settings, open)
		},
	}
	settings.bindFlags(cmd)
	cmd.Flags().BoolVar(&open, "open", false, "open the dashboard in the browser")
	return cli.ServerSettings(cmd)
}

// show writes lines to the terminal, each whole. Before each it writes what the audit has on calls by
// then, so that what led to something is shown before it.
type show struct {
	out io.Writer
	ctx context.Context // ends with the demo
	db  *pgxpool.Pool

	mu   sync.Mutex
	seen map[int64]bool // the latest events, by id: one may commit later than a newer one
}

// demoAudit bounds the reading of events: a line does not wait longer for what came before it.
const demoAudit = time.Second

func newShow(ctx context.Context, out io.Writer, db *pgxpool.Pool) (*show, error) {
	s := &show{out: out, ctx: ctx, db: db, seen: map[int64]bool{}}
	_, err := s.news() // what earlier runs did is none
	return s, err
}

// news are the events that were not there when it was asked last, oldest first.
func (s *show) news() ([]audit.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, demoAudit)
	defer cancel()
	events, err := audit.List(ctx, s.db, audit.Filter{Limit: 100})
	if err != nil {
		return nil, err
	}
	var fresh []audit.Event
	now := map[int64]bool{}
	for _, e := range slices.Backward(events) {
		if now[e.ID] = true; !s.seen[e.ID] {
			fresh = append(fresh, e)
		}
	}
	s.seen = now
	return fresh, nil
}

func (s *show) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	s.write(text)
}

func (s *show) write(text string) {
	_, _ = fmt.Fprintf(s.out, "%s  %s\n", time.Now().Format("15:04:05"), text) // a terminal that is gone is no reason to stop
}

// watch shows what happens to calls while nobody has a line to show.
func (s *show) watch() {
	ticker := time.NewTicker(demoPoll)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		s.catchUp()
		s.mu.Unlock()
	}
}

func (s *show) catchUp() {
	events, err := s.news()
	if err != nil {
		return // the database is stopping, or will answer next time
	}
	for _, e := range events {
		if text := eventLine(e); text != "" {
			s.write(text)
		}
	}
}

func runDemo(ctx context.Context, e *cli.Env, settings serverSettings, open bool) error {
	log := newLogger(e.Stderr, true, slog.LevelWarn)
	_, _ = fmt.Fprintf(e.Stdout, "Starting Holdpoint in %s …\n", settings.DataDir)
	skills := &demo.Skills{Dir: filepath.Join(settings.DataDir, demoFilesFolder), Version: e.Version, Now: time.Now}
	settings.Scripts = map[string]scripted.Script{demo.ClerkScript: skills.Clerk}
	s, err := openServer(ctx, settings, e.Version, log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	terminal, err := newShow(ctx, e.Stdout, s.db.Pool())
	if err != nil {
		return errors.Join(err, s.close())
	}
	skills.URL, skills.Say = "http://"+s.listener.Addr().String(), terminal.line
	if err := skills.Mount(ctx, s.mux); err != nil {
		return errors.Join(err, s.close())
	}
	var background sync.WaitGroup
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx) }()
	if err := startDemo(ctx, s, skills, terminal, &background, open); err != nil {
		log.Error("the demo cannot go on", "error", err)
		stop()
	}
	err = <-served
	stop()
	background.Wait()
	_, _ = fmt.Fprintln(e.Stdout, "Stopped. Start it again to go on.")
	return err
}

// startDemo shows the link, registers the agent and its skills, and lets the agent begin.
func startDemo(ctx context.Context, s *server, skills *demo.Skills, terminal *show, background *sync.WaitGroup, open bool) error {
	secret, err := s.runtime.Identity.CreateSignInLink(ctx, demoPerson,
		[]identity.Role{identity.Reviewer, identity.Operator}, demoLinkTTL)
	if err != nil {
		return err
	}
	link := strings.TrimSuffix(s.settings.PublicURL, "/") + "/sign-in?token=" + secret
	_, _ = fmt.Fprintf(terminal.out, "\n  Open the dashboard:  %s\n  CSV files appear in: %s\n\n", link, skills.Dir)
	if open {
		if err := openBrowser(ctx, link); err != nil {
			terminal.line("demo     no browser could be opened: " + err.Error())
		}
	}
	key, err := registerDemo(ctx, s, skills.URL, demo.ModelOf(s.settings.Getenv))
	if err != nil {
		return err
	}
	background.Go(terminal.watch)
	background.Go(func() {
		agent := &demo.Agent{URL: skills.URL, Key: key, Dash: strings.TrimSuffix(s.settings.PublicURL, "/"), Say: terminal.line}
		if err := agent.Run(ctx); err != nil && !demo.Ended(err) && ctx.Err() == nil {
			terminal.line("agent    stopped: " + err.Error())
		}
	})
	return nil
}

// registerDemo uses the API with a token that lives no longer than this takes.
func registerDemo(ctx context.Context, s *server, base string, m demo.Model) (string, error) {
	people := s.runtime.Identity
	id, token, err := people.CreateToken(ctx, uuid.Nil, demoPerson, []identity.Role{identity.Operator}, nil)
	if err != nil {
		return "", err
	}
	key, err := demo.Register(ctx, base, token, m)
	return key, errors.Join(err, people.RevokeToken(ctx, uuid.Nil, id))
}

var eventTexts = map[string]string{
	"call.parked":        "gate     parked the call %s",
	"call.allowed":       "gate     let the call %s through (auto-approved)",
	"approval.approved":  "reviewer approved the call %s",
	"approval.rejected":  "reviewer rejected the call %s",
	"approval.expired":   "gate     the call %s expired: nobody decided",
	"approval.cancelled": "gate     the call %s was cancelled",
	"call.executing":     "gate     claimed the call %s and sends it",
	"call.succeeded":     "gate     the call %s succeeded",
	"call.failed":        "gate     the call %s failed",
	"call.denied":        "gate     the call %s was not sent: something changed since the decision",
	"call.unknown":       "gate     the outcome of the call %s is unknown",
}

func eventLine(e audit.Event) string {
	text, ok := eventTexts[e.Action]
	if !ok {
		return ""
	}
	return fmt.Sprintf(text, shortID(e.Subject))
}

// shortID is the end of an id: its beginning is the time.
func shortID(id uuid.UUID) string {
	text := id.String()
	return "…" + text[len(text)-6:]
}

func openBrowser(ctx context.Context, link string) error {
	program := "xdg-open"
	if goruntime.GOOS == "darwin" {
		program = "open"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return errors.New("no " + program + " on this machine")
	}
	return exec.CommandContext(ctx, path, link).Start() //nolint:gosec // the program is one of two, the link our own
}
