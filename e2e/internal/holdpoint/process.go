package holdpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
)

const (
	readyLimit = 90 * time.Second // a machine under load; initdb of an embedded cluster
	deathLimit = 60 * time.Second
)

// Options are how a process is started.
type Options struct {
	Command     string   // serve or demo
	DatabaseURL string   // empty: the embedded cluster
	DataDir     string   // empty: not said
	Token       string   // of the person bootstrap; empty: none
	Port        int      // zero: a free one
	Failpoint   string   // where it kills itself; empty: nowhere
	StopAt      string   // the failpoint where it stops itself, until SIGCONT; empty: nowhere
	Args        []string // more flags
	Programs    []string // that skills may run, besides the usual
	Only        bool     // not the usual
	Env         []string // more variables
	User        *syscall.Credential
	Dir         string // working directory
}

// Process is one running Holdpoint.
type Process struct {
	URL  string
	Port int

	name   string
	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
	err    error // once ended
}

// Serve starts a server and returns when it is ready. It is killed when the test ends.
func (p Program) Serve(t testing.TB, o Options) *Process {
	t.Helper()
	process := p.Start(t, o)
	process.AwaitReady(t)
	return process
}

// Start starts a process and does not wait for it.
func (p Program) Start(t testing.TB, o Options) *Process {
	t.Helper()
	process, err := p.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return process
}

var started atomic.Int64

// TryStart is Start for goroutines, which must not end a test.
func (p Program) TryStart(t testing.TB, o Options) (*Process, error) {
	if o.Command == "" {
		o.Command = "serve"
	}
	if o.Port == 0 {
		o.Port = FreePort(t)
	}
	process := &Process{
		URL: fmt.Sprintf("http://127.0.0.1:%d", o.Port), Port: o.Port,
		name: fmt.Sprintf("%s %d", o.Command, started.Add(1)), output: &output{}, ended: make(chan struct{}),
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), p.Path, o.arguments()...) //nolint:gosec // G204: the program under test
	cmd.Env = o.environment(t)
	cmd.Dir = o.Dir
	cmd.Stdout, cmd.Stderr = process.output.stream(true), process.output.stream(false)
	// What a killed process leaves behind must not hold the pipes open for ever.
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.User}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", process.name, err)
	}
	process.cmd = cmd
	go func() {
		defer close(process.ended)
		process.err = cmd.Wait()
	}()
	t.Cleanup(func() { process.clean(t) })
	return process, nil
}

func (o Options) arguments() []string {
	args := []string{o.Command, "--addr", fmt.Sprintf("127.0.0.1:%d", o.Port)}
	if o.DataDir != "" {
		args = append(args, "--data-dir", o.DataDir)
	}
	if o.Command != "demo" && !o.Only {
		// The programs of the tests' skills, and what they read and write.
		for _, program := range []string{"node", "/usr/bin/node", "/usr/local/bin/node", "npx", "false", "sh"} {
			args = append(args, "--stdio-allow", program)
		}
		args = append(args, "--stdio-paths", os.TempDir())
		if dir, err := os.Getwd(); err == nil {
			args = append(args, "--stdio-paths", dir)
		}
	}
	for _, program := range o.Programs {
		args = append(args, "--stdio-allow", program)
	}
	return append(args, o.Args...)
}

func (o Options) environment(t testing.TB) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8",
		"GORACE=halt_on_error=0 exitcode=66",
	}
	if o.DatabaseURL != "" {
		env = append(env, "DATABASE_URL="+o.DatabaseURL)
	}
	if o.Token != "" {
		env = append(env, "HOLDPOINT_BOOTSTRAP_TOKEN="+o.Token)
	}
	if o.Failpoint != "" {
		env = append(env, "HOLDPOINT_FAILPOINT="+o.Failpoint)
	}
	if o.StopAt != "" {
		env = append(env, "HOLDPOINT_FAILPOINT_STOP="+o.StopAt)
	}
	return append(env, o.Env...)
}

// clean ends a process that still runs, and looks at what it said.
func (p *Process) clean(t testing.TB) {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	if strings.Contains(p.output.all(), "WARNING: DATA RACE") {
		t.Errorf("%s: a data race, see its output", p.name)
	}
	if t.Failed() {
		t.Logf("output of %s (%s):\n%s", p.name, p.URL, p.output.tail())
	}
}

// AwaitReady waits for /readyz.
func (p *Process) AwaitReady(t testing.TB) {
	t.Helper()
	eventually.Succeeds(t, readyLimit, p.name+" is ready", func() error {
		if p.Ended() {
			t.Fatalf("%s ended before it was ready: %v", p.name, p.err)
		}
		return p.Ready()
	})
}

// Ready asks once.
func (p *Process) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := agentClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal %s: %v", p.name, err)
	}
}

// Kill is kill -9; it returns when the process is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// AwaitKilled waits until a failpoint has killed the process.
func (p *Process) AwaitKilled(t testing.TB) {
	t.Helper()
	eventually.Succeeds(t, deathLimit, p.name+" is killed by its failpoint", p.stillRunning)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s ended with %v, not by its failpoint", p.name, p.err)
	}
}

// AwaitStopped waits until SIGSTOP has stopped the process.
func (p *Process) AwaitStopped(t testing.TB) {
	t.Helper()
	eventually.Succeeds(t, deathLimit, p.name+" is stopped", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			err = errors.New("it runs")
		}
		return err
	})
}

// Stop is Ctrl-C for goroutines, which must not end a test.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	err := eventually.Poll(ctx, deathLimit, p.stillRunning)
	if err == nil {
		err = p.err
	}
	return err
}

func (p *Process) stillRunning() error {
	if p.Ended() {
		return nil
	}
	return errors.New("it is still running")
}

// Interrupt is Ctrl-C; it waits for the process to end and returns how it did.
func (p *Process) Interrupt(t testing.TB) error {
	t.Helper()
	p.Signal(t, syscall.SIGINT)
	return p.AwaitEnd(t)
}

// AwaitEnd waits until a process that was told to stop has ended, and returns what it ended with.
func (p *Process) AwaitEnd(t testing.TB) error {
	t.Helper()
	eventually.Succeeds(t, deathLimit, p.name+" ends after Ctrl-C", p.stillRunning)
	return p.err
}

// Output is what the process wrote to stdout and stderr so far.
func (p *Process) Output() string { return p.output.all() }

// Stdout is what it wrote to stdout so far.
func (p *Process) Stdout() string { return p.output.stdout() }

// The ports of the tests are below those that the system gives to outgoing
// connections, so that a restarted process finds its own still free.
const (
	firstPort = 20000
	lastPort  = 32000
)

var nextPort atomic.Int64

// FreePort returns a port that nobody listens on.
func FreePort(t testing.TB) int {
	nextPort.CompareAndSwap(0, firstPort+int64(os.Getpid()*37%(lastPort-firstPort)))
	for range lastPort - firstPort {
		port := int(nextPort.Add(1)-firstPort)%(lastPort-firstPort) + firstPort
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Errorf("no port is free")
	return 0
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	both []byte
	out  []byte
}

type stream struct {
	*output
	toStdout bool
}

func (o *output) stream(toStdout bool) *stream { return &stream{o, toStdout} }

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.both = append(s.both, p...)
	if s.toStdout {
		s.out = append(s.out, p...)
	}
	return len(p), nil
}

func (o *output) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.both)
}

func (o *output) stdout() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.out)
}

// tail is the end of the output, enough to see what went wrong.
func (o *output) tail() string {
	const limit = 16 << 10
	all := o.all()
	if len(all) > limit {
		return "…" + all[len(all)-limit:]
	}
	return all
}
