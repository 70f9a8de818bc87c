package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// hookOptions are the flags of the hook command.
type hookOptions struct {
	agent, skill, keyFile string
	wait                  time.Duration
	proxy, caFile         string
	state, guard          string
	after, isDeferring    bool
	plugin                bool
}

// hookKey marks the command that gates tools of a host. None of its errors may let a tool run.
const hookKey = "holdpoint.hook"

func newHookCmd(e *Env) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "hook HOST",
		Short: "Gate the built-in tools of a coding agent, as its hook",
		Long: `Gate the built-in tools of a coding agent. HOST is claude-code, codex, copilot, cursor, gemini or opencode.
The agent starts this command as its hook before a tool runs, and writes to its standard input which
tool that is. The command asks the server, waits for the decision, and answers in the agent's format.

Whatever goes wrong, the tool does not run: the command then refuses the call on the standard output,
gives the reason on the standard error, and exits with 2. After --wait it does the same, and tells the
model to repeat the call, which then waits for the same approval. By default it waits less than the
agent's own default timeout, after which agents run the tool.

Settings that are not given as flags come from HOLDPOINT_URL, HOLDPOINT_AGENT, HOLDPOINT_KEY_FILE and
HOLDPOINT_SKILL. Where the agent could change the environment of its hooks, give all of them as flags.
Proxies and certificates come from flags only. See docs/coding-agents.md for how to install it.`,
		Example: `  holdpoint hook claude-code --url https://holdpoint.example.com --agent laptop --key-file /etc/holdpoint/laptop.key
  holdpoint hook opencode --agent laptop --key-file /etc/holdpoint/laptop.key --plugin > ~/.config/opencode/plugins/holdpoint.js`,
		Annotations: map[string]string{hookKey: "true"},
		ValidArgs:   tool.Hosts(),
		RunE:        func(cmd *cobra.Command, args []string) error { return e.runHook(cmd, args[0], o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.agent, "agent", "", "name of the agent (HOLDPOINT_AGENT)")
	flags.StringVar(&o.keyFile, "key-file", "", "file with the agent's key (HOLDPOINT_KEY_FILE; default --token)")
	flags.StringVar(&o.skill, "skill", "", "name of the skill of the agent's built-in tools (HOLDPOINT_SKILL; default HOST)")
	flags.DurationVar(&o.wait, "wait", 0, "how long to wait before the call is refused; keep it well below the timeout of the hook (default by HOST, below its default timeout)")
	flags.StringVar(&o.proxy, "proxy", "", "URL of a proxy to the server (default none)")
	flags.StringVar(&o.caFile, "ca-file", "", "file with the certificates that the server's one is verified with (default those of the system)")
	flags.StringVar(&o.state, "state-dir", "", "folder for the ids of calls whose outcome is not reported yet (default in the user's cache)")
	flags.StringVar(&o.guard, "guard", "", "id of the guard that runs this command; holdpoint guard sets it")
	flags.BoolVar(&o.after, "after", false, "the hook is for tools that have ended; needed for copilot only")
	flags.BoolVar(&o.isDeferring, "defer", false, "claude-code without a terminal (-p): end the run while a call waits; claude --resume continues it")
	flags.BoolVar(&o.plugin, "plugin", false, "opencode: print the plugin that runs this command")
	return cmd
}

// denyHook answers a host whose hook was not understood: it must not take that for consent.
func (e *Env) denyHook(args []string, err error) int {
	hook := &host.Hook{}
	for _, arg := range args {
		hook = cmp.Or(host.FindHook(arg), hook)
	}
	return e.writeVerdict(hook, host.Verdict{Reason: notRun(err)})
}

// notRun is the reason of a refusal because of an error.
func notRun(err error) string {
	return host.NotRun(describeError(err))
}

// writeVerdict answers, and returns the exit code. A refusal is given in every form that a host understands: on the standard output, on the
// standard error, and by the exit code 2. See docs/coding-agents.md for the hosts that miss one of them.
func (e *Env) writeVerdict(hook *host.Hook, v host.Verdict) int {
	if v.After {
		if v.Reason != "" {
			e.notef("%s", v.Reason)
		}
		return ExitOK
	}
	v.Reason = strings.TrimSpace(v.Reason)
	if !v.Allow && !v.Defers {
		v.Reason = cmp.Or(v.Reason, "Holdpoint refused this call.")
		e.notef("%s", v.Reason) // first: a host that reads no more has it
	}
	if hook.Name != "" {
		if err := write(e.Stdout, string(hook.Answer(v))); err != nil {
			e.printError(err)
			return ExitRefused
		}
	}
	if v.Allow || v.Defers {
		return ExitOK
	}
	return ExitRefused
}

// runHook answers one message of a host.
func (e *Env) runHook(cmd *cobra.Command, name string, o hookOptions) error {
	if _, err := guard.ParseHost(name); err != nil {
		return misusef("%w", err)
	}
	hook := host.FindHook(name)
	if o.plugin {
		return e.printPlugin(cmd, hook)
	}
	if o.wait == 0 {
		o.wait = hook.Wait
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.wait)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a host that reads no more is an error of the write
	caller := &hookCaller{Env: e, hook: hook, hookOptions: o}
	done := make(chan host.Verdict, 1)
	go func() { // so that nothing that hangs or panics keeps the refusal back
		defer func() {
			if p := recover(); p != nil {
				fmt.Fprintf(e.Stderr, "panic: %v\n%s", p, debug.Stack())
				done <- host.Verdict{Reason: notRun(errors.New("internal error"))}
			}
		}()
		done <- caller.answerMessage(ctx)
	}()
	var v host.Verdict
	select {
	case v = <-done:
	case <-ctx.Done():
		timer := time.NewTimer(hookGrace)
		defer timer.Stop()
		select {
		case v = <-done:
		case <-timer.C:
			v = host.Verdict{Reason: notRun(fmt.Errorf("no answer within %s", o.wait))}
		}
	}
	if code := e.writeVerdict(hook, v); code != ExitOK {
		if v.Allow {
			caller.reportNotRun(context.WithoutCancel(ctx))
		}
		return &ExitError{Code: code}
	}
	return nil
}

const (
	minHookWait, maxHookWait = 5 * time.Second, 23 * time.Hour
	// hookGrace is how long a hook whose time is over may take for its last words.
	hookGrace = 3 * time.Second
	// maxHookInput limits a host's message, in bytes. The server has a limit of its own.
	maxHookInput = 16 << 20
	maxKeyFile   = 4 << 10
	// lastWords is how long a hook may take to report that its caller is gone.
	lastWords = 2 * time.Second
	// hookPoll is how many seconds the server holds one request.
	hookPoll = 50
	// A server that is away is asked again for a short time: longer if the call is known to it.
	hookPatience, hookPatienceParked = 4 * time.Second, 30 * time.Second
)

// hookCaller asks the server about one message of a host.
type hookCaller struct {
	*Env
	hookOptions
	hook *host.Hook

	api       *client.Client
	requestID string
	event     host.Event
	claims    client.GateContext // about the event; they stay the same while the call waits
	parked    client.GateAnswer  // the last answer that the call is pending
	released  string             // id of the call that was allowed
}

// answerMessage reads the message and decides. Each error refuses the call, unless the message says that the tool has ended.
func (h *hookCaller) answerMessage(ctx context.Context) host.Verdict {
	err := h.readMessage(ctx)
	if err == nil {
		err = h.configure()
	}
	switch {
	case err != nil && h.event.After:
		return host.Verdict{After: true, Reason: err.Error()}
	case err != nil:
		return host.Verdict{Reason: notRun(err)}
	case h.event.After:
		return h.reportOutcome(ctx)
	}
	watched, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	go func() {
		if waitForReader(watched, h.Stdout) {
			leave(errCallerLeft)
		}
	}()
	return h.askServer(watched)
}

var errCallerLeft = errors.New("the caller left")

// configure makes the client of the server. Nothing of the environment decides which server is asked, apart from the documented variables.
func (h *hookCaller) configure() error {
	h.agent = cmp.Or(h.agent, h.Getenv("HOLDPOINT_AGENT"))
	h.skill = cmp.Or(h.skill, h.Getenv("HOLDPOINT_SKILL"), h.hook.Name)
	switch {
	case h.agent == "":
		return misusef("--agent: must name the agent")
	case h.wait < minHookWait || h.wait > maxHookWait:
		return misusef("--wait %s: must be between 5s and 23h", h.wait)
	case h.isDeferring && h.hook.Name != host.ClaudeCode:
		return misusef("--defer: must be used with %s only", host.ClaudeCode)
	}
	key, err := h.readKey()
	if err != nil {
		return err
	}
	transport, err := h.newTransport()
	if err != nil {
		return err
	}
	h.api, err = client.New(client.Config{
		URL: h.url, Token: key, Version: h.Version, Timeout: (hookPoll + 10) * time.Second,
		HTTP: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	h.requestID = uuid.NewString()
	return err
}

func (h *hookCaller) readKey() (string, error) {
	path := h.keyFile
	if path == "" && h.token == "" {
		path = h.Getenv("HOLDPOINT_KEY_FILE")
	}
	if path == "" {
		if h.token == "" {
			return "", misusef("--key-file: must name the file with a key of agent %s", h.agent)
		}
		return h.token, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("--key-file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return "", fmt.Errorf("--key-file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || len(text) > maxKeyFile || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("--key-file: %s: must hold one key", path)
	}
	return key, nil
}

// newTransport makes connections that no variable of the environment leads elsewhere: an agent may set variables for its hooks, and a server
// of its own would allow everything.
func (h *hookCaller) newTransport() (*http.Transport, error) {
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} { // crypto/x509 reads them
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	if h.proxy != "" {
		proxy, err := url.Parse(h.proxy)
		if err != nil || proxy.Host == "" {
			return nil, misusef("--proxy %q: must be a URL such as http://proxy.example.com:3128", h.proxy)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	if h.caFile != "" {
		text, err := os.ReadFile(h.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, misusef("--ca-file %s: must hold certificates in PEM", h.caFile)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return transport, nil
}

// readMessage reads the host's message until the end of the standard input.
func (h *hookCaller) readMessage(ctx context.Context) error {
	type input struct {
		text []byte
		err  error
	}
	read := make(chan input, 1)
	go func() { // a read cannot be interrupted
		text, err := io.ReadAll(io.LimitReader(h.Stdin, maxHookInput+1))
		read <- input{text, err}
	}()
	var in input
	select {
	case in = <-read:
	case <-ctx.Done():
		return errors.New("the host's message: must end")
	}
	if in.err != nil {
		return fmt.Errorf("read the host's message: %w", in.err)
	}
	if len(in.text) > maxHookInput {
		return fmt.Errorf("the host's message: must have at most %d bytes", maxHookInput)
	}
	var err error
	if h.event, err = h.hook.Read(in.text, h.after); err == nil && !h.event.After {
		h.claims = h.claimContext()
	}
	return err
}

// askServer asks until the call is decided, or the time is over.
func (h *hookCaller) askServer(ctx context.Context) host.Verdict {
	const firstRetry = 100 * time.Millisecond
	var away time.Duration // how long the server has not been reached
	retry := firstRetry
	for {
		begin := time.Now()
		answer, err := h.askOnce(ctx)
		switch {
		case err == nil && answer.Decision == client.GateAllow:
			h.released = answer.ID
			h.remember()
			return host.Verdict{Allow: true, Reason: cmp.Or(answer.Message, "Holdpoint allowed this call.")}
		case err == nil && answer.Decision == client.GateDeny:
			return host.Verdict{Reason: cmp.Or(answer.Message, "Holdpoint refused this call. It was not run.")}
		case err == nil:
			h.parked, away, retry = answer, 0, firstRetry
			if h.isDeferring {
				return host.Verdict{Defers: true, Reason: h.comeBack()}
			}
			if time.Since(begin) < retry { // the server ends waits early while it stops
				err = pause.For(ctx, retry)
			}
		case ctx.Err() == nil && !h.isAway(err):
			return host.Verdict{Reason: notRun(err)}
		case away < h.patience():
			away += retry
			if paused := pause.For(ctx, retry); paused == nil {
				retry, err = min(2*retry, 2*time.Second), nil
			}
		}
		if err != nil || timeLeft(ctx) < 2*time.Second {
			return h.giveUp(ctx, err)
		}
	}
}

// patience is how long a server may be away. It is longer if the server knows the call.
func (h *hookCaller) patience() time.Duration {
	if h.parked.ID != "" {
		return hookPatienceParked
	}
	return hookPatience
}

// timeLeft returns the time until the context's deadline.
func timeLeft(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline() // the hook's context has one
	return time.Until(deadline)
}

// askOnce asks about the call: for the first time, or again if it is pending.
func (h *hookCaller) askOnce(ctx context.Context) (answer client.GateAnswer, err error) {
	wait := min(hookPoll, max(0, int(timeLeft(ctx)/time.Second)-1))
	if h.parked.ID != "" {
		answer, err = h.api.AwaitGate(ctx, h.agent, h.parked.ID, h.requestID, wait)
	} else {
		answer, err = h.api.Gate(ctx, h.agent, client.GateRequest{
			// The call's id comes soon: it is needed if the caller leaves.
			Skill: h.skill, Tool: h.event.Tool, Arguments: h.event.Arguments, RequestID: h.requestID, Wait: min(wait, 1),
			Context: h.claims,
		})
	}
	switch {
	case err != nil:
		return answer, err
	case answer.ID == "" || h.parked.ID != "" && answer.ID != h.parked.ID:
		return answer, fmt.Errorf("the server's answer: id %q: must be that of the call", answer.ID)
	case !slices.Contains([]client.GateDecision{client.GateAllow, client.GateDeny, client.GatePending}, answer.Decision):
		return answer, fmt.Errorf("the server's answer: decision %q: must be allow, deny or pending", answer.Decision)
	}
	return answer, nil
}

// isAway reports whether an error may pass soon: the server was not reached, or a proxy says so. A call that the server knows still waits
// if the server is busy or fails.
func (h *hookCaller) isAway(err error) bool {
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		away := []int64{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		if h.parked.ID != "" {
			away = append(away, http.StatusTooManyRequests, http.StatusInternalServerError)
		}
		return slices.Contains(away, problem.Status)
	}
	_, isNetwork := errors.AsType[net.Error](err)
	return isNetwork || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// giveUp refuses a call whose time is up or whose caller has left.
func (h *hookCaller) giveUp(ctx context.Context, err error) host.Verdict {
	if h.parked.ID == "" {
		if err == nil || ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", h.wait)
		}
		return host.Verdict{Reason: notRun(err)}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) { // the reader is gone, or a signal
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if err := h.api.LeaveGate(ctx, h.agent, h.parked.ID, h.requestID); err != nil {
			h.notef("report that the caller left: %v", err)
		}
	}
	return host.Verdict{Reason: h.comeBack()}
}

// comeBack tells the model how to come back to a call that waits.
func (h *hookCaller) comeBack() string { return host.ComeBack(h.parked.ID, value(h.parked.Deadline)) }

// printPlugin prints the plugin for OpenCode, which runs this command with the same flags.
func (e *Env) printPlugin(cmd *cobra.Command, hook *host.Hook) error {
	if hook.Name != host.OpenCode {
		return misusef("--plugin: must be used with %s only", host.OpenCode)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	command := []string{program, "hook", hook.Name}
	for _, name := range []string{"url", "agent", "key-file", "skill", "wait", "guard", "proxy", "ca-file", "state-dir"} {
		flag := cmd.Flag(name)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		if strings.HasSuffix(name, "-file") || strings.HasSuffix(name, "-dir") {
			if value, err = filepath.Abs(value); err != nil {
				return err
			}
		}
		command = append(command, "--"+name+"="+value)
	}
	text, err := host.OpenCodePlugin(command)
	if err != nil {
		return err
	}
	return write(e.Stdout, text)
}
