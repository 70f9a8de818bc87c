package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/relay"
)

// token is the bootstrap token.
const token = "conformance-bootstrap-token-0123456789"

// setup holds the processes and servers that run beside the suite.
type setup struct {
	env     []string
	program string
	dir     string

	holdpoint      string // URL
	legacy, modern string // URLs of the proxies of the two agents

	processes []*process
	servers   []*http.Server
}

type process struct {
	*exec.Cmd
	ended chan struct{}
}

func (h *setup) startAll(ctx context.Context, everything string) error {
	sessions, err := h.startFixtures(ctx, everything, "sessions", false)
	if err != nil {
		return err
	}
	stateless, err := h.startFixtures(ctx, everything, "stateless", true)
	if err != nil {
		return err
	}
	tasks, err := h.serveHandler(ctx, newTaskServer())
	if err != nil {
		return err
	}
	if err := h.startHoldpoint(ctx); err != nil {
		return err
	}
	if err := h.applyManifest(ctx, fmt.Sprintf(manifest, sessions, stateless, tasks)); err != nil {
		return err
	}
	if h.legacy, err = h.startProxy(ctx, "legacy"); err != nil {
		return err
	}
	h.modern, err = h.startProxy(ctx, "modern")
	return err
}

// manifest declares the fixtures under the names that the suite expects.
const manifest = `skills:
  - {name: sessions, transport: http, url: %q, auto_approve: true, trust_new_tools: true}
  - {name: stateless, transport: http, url: %q, auto_approve: true, trust_new_tools: true}
  - {name: tasks, transport: http, url: %q, auto_approve: true}
agents:
  - name: legacy
    skills: [{skill: sessions, prefix: ""}]
  - name: modern
    skills: [{skill: stateless, prefix: ""}, {skill: tasks, prefix: ""}]
`

// startFixtures starts the SDK's fixture server.
func (h *setup) startFixtures(ctx context.Context, program, name string, stateless bool) (string, error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	if err := h.startProcess(name, program, "-http", addr, fmt.Sprintf("-stateless=%t", stateless)); err != nil {
		return "", err
	}
	dialer := &net.Dialer{}
	return "http://" + addr + "/mcp", h.waitFor(ctx, name+" listens", func() error {
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// startHoldpoint starts Holdpoint.
func (h *setup) startHoldpoint(ctx context.Context) error {
	addr, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	h.holdpoint = "http://" + addr
	h.env = append(h.env, "HOLDPOINT_BOOTSTRAP_TOKEN="+token)
	if err := h.startProcess("holdpoint", h.program, "serve", "--addr", addr, "--data-dir", filepath.Join(h.dir, "data")); err != nil {
		return err
	}
	return h.waitFor(ctx, "holdpoint is ready", func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.holdpoint+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New("/readyz answers " + response.Status)
		}
		return nil
	})
}

func (h *setup) applyManifest(ctx context.Context, yaml string) error {
	file := filepath.Join(h.dir, "holdpoint.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		return err
	}
	_, err := h.runCommand(ctx, "apply", "-f", file)
	return err
}

// startProxy makes the proxy before an agent. The Host header stays as it was.
func (h *setup) startProxy(ctx context.Context, agent string) (string, error) {
	printed, err := h.runCommand(ctx, "agent", "key", "create", agent, "--json")
	if err != nil {
		return "", err
	}
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(printed, &made); err != nil || made.Key == "" {
		return "", fmt.Errorf("a key for %s: %q: %w", agent, printed, err)
	}
	target, err := url.Parse(h.holdpoint)
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.URL.Path = "/agents/" + agent + "/mcp"
			r.Out.Header.Set("Authorization", "Bearer "+made.Key)
		},
	}
	return h.serveHandler(ctx, relay.Whole(proxy))
}

// serveHandler serves until the house is torn down.
func (h *setup) serveHandler(ctx context.Context, handler http.Handler) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	h.servers = append(h.servers, server)
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String() + "/mcp", nil
}

func (h *setup) runCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, h.program, args...) //nolint:gosec // G204: the program under test
	cmd.Env = append(slices.Clone(h.env), "HOLDPOINT_URL="+h.holdpoint, "HOLDPOINT_TOKEN="+token)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("holdpoint %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// startProcess begins a process that writes to a log of its own.
func (h *setup) startProcess(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(h.dir, name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()                                 // the child has its own
	cmd := exec.CommandContext(context.Background(), program, args...) //nolint:gosec // G204: likewise
	cmd.Env = h.env
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{cmd, make(chan struct{})}
	h.processes = append(h.processes, p)
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its errors are in its log
	}()
	return nil
}

// stopAll ends everything, the last begun first.
func (h *setup) stopAll() {
	for _, server := range h.servers {
		_ = server.Close() // whoever still listens is done
	}
	for _, p := range slices.Backward(h.processes) {
		_ = p.Process.Signal(syscall.SIGTERM) // it may have ended
		kill := time.AfterFunc(stopTime, func() { _ = p.Process.Kill() })
		<-p.ended
		kill.Stop()
	}
}

// freeAddress is one that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// waitFor asks until there is no error, or the process that was started last has ended.
func (h *setup) waitFor(ctx context.Context, what string, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		last := h.processes[len(h.processes)-1]
		select {
		case <-last.ended:
			return fmt.Errorf("wait until %s: it ended: %s", what, last.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
