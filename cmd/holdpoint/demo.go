package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
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
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
)

const (
	demoPerson      = "demo"
	demoLinkTTL     = 24 * time.Hour
	demoPoll        = 50 * time.Millisecond
	demoInstances   = time.Second
	demoFilesFolder = "files"

	// demoDatabase is not DATABASE_URL, so that the demo does not register its agent in a database of servers.
	demoDatabase = "HOLDPOINT_DEMO_DATABASE_URL"
)

func newDemoCmd(e *cli.Env) *cobra.Command {
	settings := serverSettings{}
	var open bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show Holdpoint at work, in one process",
		Long: `Start everything in one process on a private database: two small skills, and an agent that
reads invoices from an inbox (auto-approved) and saves them to a drive (parked until you decide).
Holdpoint runs the agent's conversation itself; its model is a script, or with OPENAI_BASE_URL or
ANTHROPIC_BASE_URL set a real one (named by OPENAI_MODEL or ANTHROPIC_MODEL).

The drive's server needs tokens: the terminal shows how Holdpoint is refused, finds the
authorization server, and gets a token for this one server. It gets the right to write only when a
call that you approved needs it.

The printed link signs you in, once. Ctrl-C stops everything; the next start continues with the same
data. With HOLDPOINT_DEMO_DATABASE_URL set, the demo uses that database instead of a private one.`,
		Example: "  holdpoint demo --open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			settings.Getenv = e.Getenv
			settings.AllowSelfApproval, settings.HighRiskMaxAge = true, demoLinkTTL
			settings.FilesFolder = "attachments" // the demo's skill saves to "files"
			var err error
			if settings.Models, err = readModelDefaults(e.Getenv); err != nil {
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
			settings.DatabaseURL = e.Getenv(demoDatabase)
			settings.Path = e.Getenv("PATH")
			if settings.Programs, err = settings.Stdio.PolicyOfDemo(e, settings.DataDir, settings.privatePaths()...); err != nil {
				return err
			}
			return runDemo(ctx, e, settings, open)
		},
	}
	settings.bindFlags(cmd)
	cmd.Flags().BoolVar(&open, "open", false, "open the dashboard in the browser")
	return cli.ServerSettings(cmd)
}

// narrator writes lines to the terminal. Before each line it writes the new audit events of calls, so that causes come
// before effects.
type narrator struct {
	out io.Writer
	ctx context.Context // ends with the demo
	db  *pgxpool.Pool

	mu   sync.Mutex
	seen map[int64]bool // ids of the latest events: an event may commit later than a newer one
}

// demoAudit limits the reading of events before a line.
const demoAudit = time.Second

// newEvents returns the events since the last time, oldest first.
func (s *narrator) newEvents() ([]audit.Event, error) {
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

func (s *narrator) writeLine(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeEvents()
	s.writeText(text)
}

func (s *narrator) writeText(text string) {
	_, _ = fmt.Fprintf(s.out, "%s  %s\n", time.Now().Format("15:04:05"), text) // the demo continues without its terminal
}

// watchEvents writes events while there is no other line to write.
func (s *narrator) watchEvents() {
	for pause.For(s.ctx, demoPoll) == nil {
		s.mu.Lock()
		s.writeEvents()
		s.mu.Unlock()
	}
}

func (s *narrator) writeEvents() {
	events, err := s.newEvents()
	if err != nil {
		return // the database is stopping, or answers next time
	}
	for _, e := range events {
		if text := eventTexts[e.Action]; text != "" {
			s.writeText(fmt.Sprintf(text, shortID(e.Subject)))
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
	terminal := &narrator{out: e.Stdout, ctx: ctx, db: s.db.Pool(), seen: map[int64]bool{}}
	if _, err := terminal.newEvents(); err != nil { // events of earlier runs are not shown
		return errors.Join(err, s.close())
	}
	skills.URL, skills.Say = localURL(s.listener.Addr()), terminal.writeLine
	if err := skills.Mount(ctx, s.mux); err != nil {
		return errors.Join(err, s.close())
	}
	var background sync.WaitGroup
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, ctx) }()
	if err := startDemo(ctx, s, skills, terminal, &background, open); err != nil {
		log.Error("the demo stops", "error", err)
		stop()
	}
	err = <-served
	stop()
	background.Wait()
	_, _ = fmt.Fprintln(e.Stdout, "Stopped. Start it again to continue.")
	return err
}

// localURL returns the URL by which this process reaches itself. A listener on all addresses is reached by the loopback address.
func localURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + addr.String()
	}
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

// startDemo prints the link, registers the agent and its skills, and starts the agent.
func startDemo(ctx context.Context, s *server, skills *demo.Skills, terminal *narrator, background *sync.WaitGroup, open bool) error {
	secret, err := s.runtime.Identity.CreateSignInLink(ctx, demoPerson,
		[]identity.Role{identity.Reviewer, identity.Operator}, demoLinkTTL)
	if err != nil {
		return err
	}
	link := cli.SignInURL(s.settings.PublicURL, secret)
	_, _ = fmt.Fprintf(terminal.out, "\n  Open the dashboard:  %s\n                       (signs you in once; each start prints a new link)\n  CSV files appear in: %s\n\n", link, skills.Dir)
	if open {
		if err := openBrowser(ctx, link); err != nil {
			terminal.writeLine("demo     cannot open a browser: " + err.Error())
		}
	}
	// The token for the API is revoked as soon as the demo is registered.
	people := s.runtime.Identity
	id, token, err := people.CreateToken(ctx, uuid.Nil, demoPerson, []identity.Role{identity.Operator}, nil)
	if err != nil {
		return err
	}
	key, others, err := demo.Register(ctx, skills.URL, token, demo.ModelOf(s.settings.Getenv))
	if err := errors.Join(err, people.RevokeToken(ctx, uuid.Nil, id)); err != nil {
		return err
	}
	background.Go(terminal.watchEvents)
	background.Go(func() { revokeKeys(ctx, s, others) })
	background.Go(func() {
		clerk := &demo.Agent{URL: skills.URL, Key: key, Dash: strings.TrimSuffix(s.settings.PublicURL, "/"), Say: terminal.writeLine}
		if err := clerk.Run(ctx); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			terminal.writeLine("agent    stopped: " + err.Error())
		}
	})
	return nil
}

// revokeKeys revokes keys of earlier runs once no other process uses the same data. A killed process counts until its heartbeats are missed.
func revokeKeys(ctx context.Context, s *server, keys []uuid.UUID) {
	for len(keys) > 0 {
		alone, err := s.runtime.Calls.IsAlone(ctx)
		if err == nil && alone {
			keys = slices.DeleteFunc(keys, func(id uuid.UUID) bool {
				err := s.runtime.Agents.RevokeKey(ctx, audit.System(), id)
				return err == nil || errors.Is(err, agent.ErrNotFound) // revoked by a person
			})
		}
		if pause.For(ctx, demoInstances) != nil {
			return
		}
	}
}

// eventTexts are the lines for events, each with a verb for the call's id. Other events are not shown.
var eventTexts = map[audit.Action]string{
	audit.CallParked:        "gate     parked the call %s",
	audit.CallAllowed:       "gate     auto-approved the call %s",
	audit.ApprovalApproved:  "reviewer approved the call %s",
	audit.ApprovalRejected:  "reviewer rejected the call %s",
	audit.ApprovalExpired:   "gate     the call %s expired without a decision",
	audit.ApprovalCancelled: "gate     the call %s was cancelled",
	audit.CallExecuting:     "gate     sends the call %s",
	audit.CallSucceeded:     "gate     the call %s succeeded",
	audit.CallFailed:        "gate     the call %s failed",
	audit.CallDenied:        "gate     the call %s was not sent: something changed since the decision",
	audit.CallUnknown:       "gate     the outcome of the call %s is unknown",
}

// shortID returns the end of an id. Ids of one moment have the same beginning.
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
		return fmt.Errorf("this machine has no %s", program)
	}
	return exec.CommandContext(ctx, path, link).Start() //nolint:gosec // the program is one of two, the link our own
}
