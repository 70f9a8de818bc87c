package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

const (
	bootstrapToken = "e2e-bootstrap-token-of-32-letters"

	// patience is the limit for steps without their own time limit.
	patience = 5 * time.Minute
)

// world is the database and data directory that the processes of a test share.
type world struct {
	t           testing.TB
	databaseURL string // empty: the embedded cluster in the data directory
	sessionURL  string // of the same database, past a pooler; empty: there is none
	dataDir     string
	args        []string // of each server
	user        *syscall.Credential
	home        string // if set, the data directory is derived from it
}

// newWorld returns a world with its own database.
func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{dir, filepath.Dir(dir)} { // skill accounts traverse these folders
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, databaseURL: postgrestest.New(t).URL(), dataDir: dir}
	w.usePooler()
	return w
}

func (w *world) serverOptions() holdpoint.Options {
	o := holdpoint.Options{
		DatabaseURL: w.databaseURL, SessionURL: w.sessionURL, DataDir: w.dataDir, Token: bootstrapToken, Args: w.args, Programs: []string{skill.StdioBinary}, User: w.user,
	}
	if w.home != "" {
		o.DataDir, o.Dir, o.Env = "", w.home, []string{"HOME=" + w.home}
	}
	return o
}

// startServer starts a server and waits until it is ready.
func (w *world) startServer() *holdpoint.Process {
	w.t.Helper()
	return program.Serve(w.t, w.serverOptions())
}

// serveArmed starts a server that kills itself at a failpoint.
func (w *world) serveArmed(failpoint string) *holdpoint.Process {
	w.t.Helper()
	o := w.serverOptions()
	o.Failpoint = failpoint
	return program.Serve(w.t, o)
}

// operatorAPI returns the API for the bootstrap person, an operator and reviewer.
func operatorAPI(p *holdpoint.Process) holdpoint.API {
	return holdpoint.API{URL: p.URL, Token: bootstrapToken}
}

func newCLI(p *holdpoint.Process, token string) holdpoint.CLI {
	return holdpoint.CLI{Program: program, URL: p.URL, Token: token}
}

// applyManifest applies a manifest in YAML.
func (w *world) applyManifest(p *holdpoint.Process, yaml string) {
	w.t.Helper()
	newCLI(p, bootstrapToken).Must(w.t, "apply", "-f", writeFile(w.t, "holdpoint.yaml", yaml))
}

// newAgent creates a key for an agent as an invited person. If the bootstrap person created it, people whom that person
// invited could not decide the agent's calls.
func (w *world) newAgent(p *holdpoint.Process, name string) holdpoint.Agent {
	w.t.Helper()
	keeper := w.invitePerson(p, "keeper", "operator")
	return holdpoint.Agent{URL: p.URL, Name: name, Key: keyBy(w.t, p, keeper, "agent", "key", "create", name)}
}

// invitePerson invites a person, who redeems the invitation, and returns their token.
func (w *world) invitePerson(p *holdpoint.Process, name, role string, more ...string) string {
	w.t.Helper()
	invitation := append([]string{"invitation", "create", "--name", name, "--role", role}, more...)
	return keyBy(w.t, p, "", "invitation", "redeem", w.newKey(p, invitation...))
}

// newKey creates a credential as the bootstrap person.
func (w *world) newKey(p *holdpoint.Process, args ...string) string {
	w.t.Helper()
	return keyBy(w.t, p, bootstrapToken, args...)
}

// approveCall approves a call on the command line. The digest comes from a first run without one; shown is called in
// between.
func approveCall(t testing.TB, p *holdpoint.Process, id string, shown func()) {
	t.Helper()
	first := newCLI(p, bootstrapToken).Run(t, "approvals", "approve", id)
	_, after, found := strings.Cut(first.Stdout+first.Stderr, "--digest ")
	if first.Code == 0 || !found {
		t.Fatalf("approving without a digest: %+v", first)
	}
	shown()
	newCLI(p, bootstrapToken).Must(t, "approvals", "approve", id, "--digest", strings.Fields(after)[0])
}

func keyBy(t testing.TB, p *holdpoint.Process, token string, args ...string) string {
	t.Helper()
	var made struct {
		Key string `json:"key"`
	}
	printed := newCLI(p, token).Must(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(printed), &made); err != nil || made.Key == "" {
		t.Fatalf("holdpoint %v printed %q, want a key (%v)", args, printed, err)
	}
	return made.Key
}

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// oneSkill declares a skill and the agent "worker". Auto-approved calls have a long hold time for busy machines, others
// a short one.
func oneSkill(url, settings string) string {
	budget := "2s"
	if strings.Contains(settings, "auto_approve: true") {
		budget = "20s"
	}
	return fmt.Sprintf(`skills:
  - name: counting
    transport: http
    url: %s
%sagents:
  - name: worker
    wait_budget: %s
    limits: {pending: 1000}
    skills: [counting]
`, url, indentLines(settings), budget)
}

// indentLines indents lines below the preceding list element.
func indentLines(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// pendingFor waits for the approval of the call with the argument n, at any of the processes.
func pendingFor(ctx context.Context, n string, processes ...*holdpoint.Process) (holdpoint.Approval, error) {
	var found holdpoint.Approval
	err := eventually.Poll(ctx, patience, func() error {
		var last error
		for _, p := range processes {
			list, err := holdpoint.List[holdpoint.Approval](ctx, operatorAPI(p), "approvals", "status=pending")
			if err != nil {
				last = err
				continue
			}
			for _, a := range list {
				if argumentN(a.Arguments) == n {
					found = a
					return nil
				}
			}
			last = fmt.Errorf("no pending approval for n = %s among %d", n, len(list))
		}
		return last
	})
	return found, err
}

func argumentN(arguments json.RawMessage) string {
	var a struct {
		N json.RawMessage `json:"n"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return ""
	}
	return string(a.N)
}

// awaitCall waits until a call in the API meets a condition.
func awaitCall(t testing.TB, api holdpoint.API, id string, wanted func(holdpoint.Call) error) holdpoint.Call {
	t.Helper()
	var found holdpoint.Call
	eventually.Succeeds(t, patience, "call "+id, func() error {
		c, err := api.Call(t.Context(), id)
		if err != nil {
			return err
		}
		found = c
		return wanted(c)
	})
	return found
}

func hasStatus(status string) func(holdpoint.Call) error {
	return func(c holdpoint.Call) error {
		if c.Status != status {
			return fmt.Errorf("status %s (%s), want %s", c.Status, c.Message, status)
		}
		return nil
	}
}

// wantProblem checks the status and code of a refusal by the API.
func wantProblem(t testing.TB, err error, status int, code string) *holdpoint.Problem {
	t.Helper()
	var p *holdpoint.Problem
	if !errors.As(err, &p) || p.Status != status || p.Code != code {
		t.Fatalf("error %v, want %d %s", err, status, code)
	}
	return p
}

// alreadyDecided reports whether a decision was refused because another one was made.
func alreadyDecided(err error) bool {
	var p *holdpoint.Problem
	return errors.As(err, &p) && p.Status == http.StatusConflict && (p.Code == "already_decided" || p.Code == "expired")
}

// findNode finds Node.js.
func findNode(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("Node.js is needed and not on the PATH; install it (Debian: apt-get install nodejs npm) and run `task setup`")
	}
	return path
}

// npmPackage returns the path of a file in an installed npm package.
func npmPackage(t testing.TB, file string) string {
	t.Helper()
	path := filepath.Join(npmModules(t), filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the npm packages of e2e/package.json are not installed; run `task setup` (npm ci in e2e): %v", err)
	}
	return path
}

// npmModules returns the folder of npm packages. Skill accounts can traverse its parents.
func npmModules(t testing.TB) string {
	t.Helper()
	folder, err := reachModules()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// reachModules copies the packages if the source code is in a folder that only its owner can enter, such as /root.
var reachModules = sync.OnceValues(func() (string, error) {
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		return "", err
	}
	for folder := modules; folder != "/"; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			return modules, nil // npmPackage reports the error
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&0o005 != 0o005 {
			open := filepath.Join(filepath.Dir(program.Path), "node_modules")
			return open, os.CopyFS(open, os.DirFS(modules))
		}
	}
	return modules, nil
})
