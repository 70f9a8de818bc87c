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

// token is that of the person who sets the house up.
const token = "conformance-bootstrap-token-0123456789"

// house is everything that runs beside the suite.
type house struct {
	env     []string
	program string
	dir     string

	holdpoint      string // its URL
	legacy, modern string // the URLs of the two agents, without need of a key

	processes []*process
	servers   []*http.Server
}

type process struct {
	*exec.Cmd
	ended chan struct{}
}

func (h *house) build(ctx context.Context, everything string) error {
	sessions, err := h.fixtures(ctx, everything, "sessions", false)
	if err != nil {
		return err
	}
	stateless, err := h.fixtures(ctx, everything, "stateless", true)
	if err != nil {
		return err
	}
	tasks, err := h.listen(ctx, newTaskServer())
	if err != nil {
		return err
	}
	if err := h.serve(ctx); err != nil {
		return err
	}
	if err := h.apply(ctx, fmt.Sprintf(manifest, sessions, stateless, tasks)); err != nil {
		return err
	}
	if h.legacy, err = h.front(ctx, "legacy"); err != nil {
		return err
	}
	h.modern, err = h.front(ctx, "modern")
	return err
}

// manifest has the fixtures under the names that the suite knows.
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

// fixtures starts the SDK's fixture server.
func (h *house) fixtures(ctx context.Context, program, name string, stateless bool) (string, error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	if err := h.start(name, program, "-http", addr, fmt.Sprintf("-stateless=%t", stateless)); err != nil {
		return "", err
	}
	dialer := &net.Dialer{}
	return "http://" + addr + "/mcp", h.await(ctx, name+" listens", func() error {
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// serve starts Holdpoint.
func (h *house) serve(ctx context.Context) error {
	addr, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	h.holdpoint = "http://" + addr
	h.env = append(h.env, "HOLDPOINT_BOOTSTRAP_TOKEN="+token)
	if err := h.start("holdpoint", h.program, "serve", "--addr", addr, "--data-dir", filepath.Join(h.dir, "data")); err != nil {
		return err
	}
	return h.await(ctx, "holdpoint is ready", func() error {
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

func (h *house) apply(ctx context.Context, yaml string) error {
	file := filepath.Join(h.dir, "holdpoint.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		return err
	}
	_, err := h.cli(ctx, "apply", "-f", file)
	return err
}

// front makes the proxy before an agent. The Host header stays as it was.
func (h *house) front(ctx context.Context, agent string) (string, error) {
	printed, err := h.cli(ctx, "agent", "key", "create", agent, "--json")
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
	return h.listen(ctx, relay.Whole(proxy))
}

// listen serves until the house is torn down.
func (h *house) listen(ctx context.Context, handler http.Handler) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	h.servers = append(h.servers, server)
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String() + "/mcp", nil
}

func (h *house) cli(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, h.program, args...) //nolint:gosec // G204: the program under test
	cmd.Env = append(slices.Clone(h.env), "HOLDPOINT_URL="+h.holdpoint, "HOLDPOINT_TOKEN="+token)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("holdpoint %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// start begins a process that writes to a log of its own.
func (h *house) start(name, program string, args ...string) error {
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
		_ = cmd.Wait() // what it has to say is in its log
	}()
	return nil
}

// stop ends everything, the last begun first.
func (h *house) stop() {
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

// await asks until there is no error, or the process that was started last has ended.
func (h *house) await(ctx context.Context, what string, ask func() error) error {
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
