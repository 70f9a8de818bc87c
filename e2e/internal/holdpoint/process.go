package holdpoint

import (
	"bytes"
	"cmp"
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
	readyLimit = 5 * time.Minute // initdb of an embedded cluster on a busy machine
	deathLimit = 3 * time.Minute
)

// Options configure a process.
type Options struct {
	Command     string   // serve or demo
	DatabaseURL string   // empty: the embedded cluster
	SessionURL  string   // of the same database, past a pooler; empty: there is none
	ReadURL     string   // of a standby; empty: there is none
	DataDir     string   // empty: without the flag
	Token       string   // bootstrap token; empty: none
	Port        int      // zero: any free port
	Failpoint   string   // the failpoint where the process kills itself, or "name:20" for its 20th hit; empty: none
	StopAt      string   // the failpoint where the process stops itself until SIGCONT; empty: none
	Args        []string // more flags
	Programs    []string // more programs that skills may run
	Only        bool     // skills may run only Programs
	Env         []string // added variables
	User        *syscall.Credential
	Dir         string // working directory
}

// Process is a running Holdpoint.
type Process struct {
	URL  string
	Port int

	name string
	cmd  *exec.Cmd
	// lastSignal ends the process with its test.
	lastSignal syscall.Signal
	output     *output
	ended      chan struct{}
	err        error // set when ended is closed
}

// Serve starts a server and waits until it is ready. The end of the test kills the server.
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
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), cmp.Or(p.Server, p.Path), o.commandLine()...) //nolint:gosec // G204: the program under test
	cmd.Env = o.buildEnvironment(t)
	cmd.Dir = o.Dir
	cmd.Stdout, cmd.Stderr = process.output.newStream(true), process.output.newStream(false)
	// Children of a killed process must not hold the pipes open for ever.
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.User}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", process.name, err)
	}
	process.cmd, process.lastSignal = cmd, syscall.SIGKILL
	if p.Server != "" { // a container outlives its killed client for a moment, and holds the folder of the test
		process.lastSignal = syscall.SIGINT
	}
	go func() {
		defer close(process.ended)
		process.err = cmd.Wait()
	}()
	t.Cleanup(func() { process.endWithTest(t) })
	return process, nil
}

func (o Options) commandLine() []string {
	args := []string{o.Command, "--addr", fmt.Sprintf("127.0.0.1:%d", o.Port)}
	if o.DataDir != "" {
		args = append(args, "--data-dir", o.DataDir)
	}
	if o.Command != "demo" && !o.Only {
		// The programs of the tests' skills, and the paths that they use.
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

func (o Options) buildEnvironment(t testing.TB) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8",
		raceOptions,
	}
	if o.DatabaseURL != "" {
		env = append(env, "DATABASE_URL="+o.DatabaseURL)
	}
	if o.SessionURL != "" {
		env = append(env, "HOLDPOINT_LISTEN_DATABASE_URL="+o.SessionURL)
	}
	if o.ReadURL != "" {
		env = append(env, "HOLDPOINT_READ_DATABASE_URL="+o.ReadURL)
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

// endWithTest ends the process and looks for data races in its output.
func (p *Process) endWithTest(t testing.TB) {
	_ = p.cmd.Process.Signal(p.lastSignal) // it may have ended
	<-p.ended
	if strings.Contains(p.output.readAll(), "WARNING: DATA RACE") {
		t.Errorf("%s: a data race, see its output", p.name)
	}
	if t.Failed() {
		t.Logf("output of %s (%s):\n%s", p.name, p.URL, p.output.readTail())
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

// Ready asks /readyz once.
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

// PID returns the process ID.
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

// Kill sends SIGKILL and waits for the end of the process.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// AwaitKilled waits until a failpoint has killed the process.
func (p *Process) AwaitKilled(t testing.TB) {
	t.Helper()
	eventually.Succeeds(t, deathLimit, p.name+" is killed by its failpoint", p.checkEnded)
	if err := p.CheckKilled(); err != nil {
		t.Fatal(err)
	}
}

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.ended }

// CheckKilled returns an error unless SIGKILL ended the process, as failpoints do.
func (p *Process) CheckKilled() error {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s ended with %w, not by its failpoint", p.name, p.err)
	}
	return nil
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

// Stop is Interrupt for goroutines, which must not end a test.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	err := eventually.Poll(ctx, deathLimit, p.checkEnded)
	if err == nil {
		err = p.err
	}
	return err
}

func (p *Process) checkEnded() error {
	if p.Ended() {
		return nil
	}
	return errors.New("it is still running")
}

// Interrupt sends SIGINT, as Ctrl-C does. It waits for the end of the process and returns its error.
func (p *Process) Interrupt(t testing.TB) error {
	t.Helper()
	p.Signal(t, syscall.SIGINT)
	return p.AwaitEnd(t)
}

// AwaitEnd waits for the end of a process that was asked to stop, and returns its error.
func (p *Process) AwaitEnd(t testing.TB) error {
	t.Helper()
	eventually.Succeeds(t, deathLimit, p.name+" ends after Ctrl-C", p.checkEnded)
	return p.err
}

// Output returns the output of the process so far, both stdout and stderr.
func (p *Process) Output() string { return p.output.readAll() }

// Stdout returns the output to stdout so far.
func (p *Process) Stdout() string { return p.output.readStdout() }

// The ports of the tests are below the ports of outgoing connections, so that a restarted process finds its own port free.
const (
	firstPort = 20000
	lastPort  = 32000
)

var nextPort atomic.Int64

// FreePort returns an unused port.
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

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	both []byte
	out  []byte
}

type stream struct {
	*output
	toStdout bool
}

func (o *output) newStream(toStdout bool) *stream { return &stream{o, toStdout} }

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.both = append(s.both, p...)
	if s.toStdout {
		s.out = append(s.out, p...)
	}
	return len(p), nil
}

func (o *output) readAll() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.both)
}

func (o *output) readStdout() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.out)
}

// readTail returns the end of the output.
func (o *output) readTail() string {
	const limit = 16 << 10
	all := o.readAll()
	if len(all) > limit {
		return "…" + all[len(all)-limit:]
	}
	return all
}
