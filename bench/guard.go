package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// alertPatience is how long an alert may take before the measurement fails.
const alertPatience = 3 * time.Minute

// guardedHome is the home folder of a user whose Claude Code has a guard, and the watcher of the guard.
type guardedHome struct {
	*stage
	home    string
	watcher *process
	watches int
	chat    chan time.Time // when a message of the server came in
}

// settingsPath is the file with the hook.
func (g *guardedHome) settingsPath() string { return filepath.Join(g.home, ".claude", "settings.json") }

func (g *guardedHome) projectPath() string { return filepath.Join(g.home, "src") }

// measureGuardAlerts measures how soon a chat knows that a hook was taken out or altered by hand, or that its watcher was killed.
func measureGuardAlerts(ctx context.Context, s *stage) error {
	g := &guardedHome{stage: s, home: filepath.Join(s.dir, s.name+"-home"), chat: make(chan time.Time, 100)}
	stopChat, err := g.startChat(ctx)
	if err != nil {
		return err
	}
	defer stopChat()
	defer func() {
		if g.watcher != nil {
			g.watcher.stop()
		}
	}()
	if err := os.MkdirAll(g.projectPath(), 0o700); err != nil {
		return err
	}
	if err := g.installGuard(ctx); err != nil {
		return err
	}
	var byHand, killed []time.Duration
	for round := range choose(s.bench, 6, 2) {
		change := []func() error{g.removeHook, g.alterHook}[round%2]
		// The watcher reads every 10 s: rounds begin at different times between two readings.
		took, err := g.timeAlert(ctx, time.Duration(round)*1700*time.Millisecond, change)
		if err != nil {
			return err
		}
		byHand = append(byHand, took)
	}
	for range choose(s.bench, 2, 1) {
		took, err := g.timeAlert(ctx, 0, g.killWatcher)
		if err != nil {
			return err
		}
		killed = append(killed, took)
	}
	report := func(name string, took []time.Duration) {
		seconds := make([]float64, len(took))
		for i := range took {
			seconds[i] = took[i].Seconds()
		}
		s.report.addMedian(gatePhase, name, "s", seconds).aimAtMost(60)
	}
	report("hook taken out or altered by hand to the alert in a chat", byHand)
	report("watcher killed to the alert in a chat", killed)
	return nil
}

// startChat starts a receiver of alerts, and registers it.
func (g *guardedHome) startChat(ctx context.Context) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a chat: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: wirePatience, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at := time.Now()
		if text, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(text), "Guard no longer holds") {
			g.chat <- at
		}
	})}
	go func() { _ = server.Serve(listener) }() // it ends with the listener
	_, err = g.api.CreateWebhook(ctx, client.WebhookRequest{Name: "chat", URL: "http://" + listener.Addr().String()})
	return func() { _ = server.Close() }, err
}

// makeCommand makes a command about the guard. It has no token of an operator.
func (g *guardedHome) makeCommand(ctx context.Context, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.binary, append([]string{"guard"}, append(words, "--scope", "user")...)...) //nolint:gosec // G204: the measured program
	cmd.Env = []string{"HOME=" + g.home, "PATH=" + g.getenv("PATH"), "HOLDPOINT_URL=http://" + g.addr}
	return cmd
}

// installGuard puts the hook into the settings, starts a watcher if none runs, and waits until the server knows that the guard holds.
func (g *guardedHome) installGuard(ctx context.Context) error {
	cmd := g.makeCommand(ctx, "claude-code", "--agent", "guarded", "--project", g.projectPath())
	cmd.Env = append(cmd.Env, "HOLDPOINT_TOKEN="+g.token)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install a guard: %w\n%s", err, said)
	}
	if g.watcher == nil {
		var err error
		g.watches++
		if g.watcher, err = startProcess(g.makeCommand(ctx, "watch"), filepath.Join(g.dir, fmt.Sprintf("%s-watch%d.log", g.name, g.watches))); err != nil {
			return err
		}
	}
	return g.watcher.waitFor(ctx, alertPatience, func(ctx context.Context) bool {
		guards, err := client.Value(g.api.ListGuards(ctx, client.ListGuardsQuery{}))
		return err == nil && len(guards.Items) == 1 && guards.Items[0].State == "holds"
	})
}

// timeAlert breaks the guard after a pause, and returns the time until the chat has an alert. Then it mends the guard.
func (g *guardedHome) timeAlert(ctx context.Context, after time.Duration, breakGuard func() error) (time.Duration, error) {
	if err := pause.For(ctx, after); err != nil {
		return 0, err
	}
	if err := breakGuard(); err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case at := <-g.chat:
		g.logf("  alert after %.1f s", at.Sub(began).Seconds())
		return at.Sub(began), g.installGuard(ctx)
	case <-time.After(alertPatience):
		return 0, errors.New("no alert reached the chat")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// removeHook leaves no hook in the settings.
func (g *guardedHome) removeHook() error {
	return os.WriteFile(g.settingsPath(), []byte("{}\n"), 0o600)
}

// alterHook makes the hook another command.
func (g *guardedHome) alterHook() error {
	text, err := os.ReadFile(g.settingsPath())
	if err != nil {
		return err
	}
	altered := strings.ReplaceAll(string(text), " hook claude-code ", " hook codex ")
	if altered == string(text) {
		return fmt.Errorf("the settings have no hook: %s", text)
	}
	return os.WriteFile(g.settingsPath(), []byte(altered), 0o600)
}

func (g *guardedHome) killWatcher() error {
	err := g.watcher.cmd.Process.Kill()
	<-g.watcher.exited
	g.watcher = nil
	return err
}
