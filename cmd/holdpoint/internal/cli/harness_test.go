package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

// ran is the output and the exit code of a command.
type ran struct {
	stdout, stderr string
	code           int
}

// run runs a command as a process would.
func run(t *testing.T, env map[string]string, stdin string, args ...string) ran {
	t.Helper()
	return runWith(t, env, stdin, nil, args...)
}

func runWith(t *testing.T, env map[string]string, stdin string, further []*cobra.Command, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := &cli.Env{
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }, Version: "1.2.3",
	}
	code := cli.Run(t.Context(), e, args, further...)
	return ran{stdout.String(), stderr.String(), code}
}

// fake is a server with prepared answers, which records requests.
type fake struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	answers map[string]string // by method and path
	status  map[string]int
	asked   []string // method, path, query
	bodies  []string
	header  http.Header // of the last request
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, answers: map[string]string{}, status: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	f.bodies = append(f.bodies, string(body))
	f.header = r.Header.Clone()
	key := r.Method + " " + r.URL.EscapedPath()
	text, ok := f.answers[key]
	status := f.status[key]
	switch {
	case !ok && (r.Method == http.MethodDelete || r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/guards/")):
		w.WriteHeader(http.StatusNoContent)
		return
	case !ok:
		text, status = `{"status":404,"code":"not_found","detail":"nothing here","title":"Not Found"}`, http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/mcp") {
		w.Header().Set("Holdpoint-Call", f.answers["call"])
	}
	if status != 0 {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
	}
	fmt.Fprint(w, text)
}

// setAnswer sets the answer to requests of a method and path.
func (f *fake) setAnswer(request, text string) *fake {
	f.answers[request] = text
	return f
}

// setProblem sets a problem as the answer.
func (f *fake) setProblem(request string, status int, problem string) *fake {
	f.status[request] = status
	return f.setAnswer(request, problem)
}

func (f *fake) env() map[string]string {
	return map[string]string{"HOLDPOINT_URL": f.URL, "HOLDPOINT_TOKEN": "t0ken"}
}

func (f *fake) run(args ...string) ran {
	f.t.Helper()
	return run(f.t, f.env(), "", args...)
}

// runAtTerminal is run with a person who types an answer.
func (f *fake) runAtTerminal(answer string, args ...string) ran {
	f.t.Helper()
	env := f.env()
	var stdout, stderr bytes.Buffer
	e := &cli.Env{
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(answer), Stdout: &stdout, Stderr: &stderr, Terminal: true,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	code := cli.Run(f.t.Context(), e, args)
	return ran{stdout.String(), stderr.String(), code}
}

// getLastBody is the body of the last request.
func (f *fake) getLastBody() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[len(f.bodies)-1]
}

func (r ran) wantCode(t *testing.T, code int) ran {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

func wantContains(t *testing.T, what, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not say %q:\n%s", what, want, text)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
