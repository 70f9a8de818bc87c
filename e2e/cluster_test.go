package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// newEmbeddedWorld returns a world whose processes run the embedded cluster.
func newEmbeddedWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, dataDir: clusterDir(t)}
}

// clusterDir returns a data directory that PostgreSQL's account can reach. Its cleanup kills remaining processes.
func clusterDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdpoint-e2e-data-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endPostmaster(t, dir)
		// Orphans of a killed process may still write.
		if err := eventually.Poll(context.WithoutCancel(t.Context()), patience, func() error { return os.RemoveAll(dir) }); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// findPostmaster returns the process id of the cluster's server, if it runs.
func findPostmaster(dataDir string) (int, bool) {
	file, err := os.Open(filepath.Join(dataDir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !isAlive(pid) {
		return 0, false
	}
	return pid, true
}

// isAlive reports whether a process runs and is not a zombie.
func isAlive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !isZombie(stat)
}

// isZombie reads the state in /proc/PID/stat, which follows the name in parentheses.
func isZombie(stat []byte) bool {
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("Z"))
}

// mustRun returns the process id of the cluster's server, which must run.
func mustRun(t testing.TB, dataDir string) int {
	t.Helper()
	pid, ok := findPostmaster(dataDir)
	if !ok {
		t.Fatalf("no PostgreSQL runs in %s", dataDir)
	}
	return pid
}

func endPostmaster(t testing.TB, dataDir string) {
	t.Helper()
	pid, ok := findPostmaster(dataDir)
	if !ok {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGQUIT)    // it may have exited
	ctx := context.WithoutCancel(t.Context()) // the test's own context has ended
	if err := eventually.Poll(ctx, patience, func() error { return checkGone(pid) }); err != nil {
		t.Errorf("end PostgreSQL: %v", err)
	}
}

func checkGone(pid int) error {
	if isAlive(pid) {
		return fmt.Errorf("process %d is still there", pid)
	}
	return nil
}

// TestDatabaseRestartedInFlight stops PostgreSQL while a skill server has a call. The outcome arrives meanwhile, and
// the living process writes it later.
func TestDatabaseRestartedInFlight(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGINT, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEmbeddedWorld(t)
			counting := skill.NewCounting(t)
			p := w.startServer()
			w.applyManifest(p, oneSkill(counting.URL, ""))
			agent := newStubborn(w.newAgent(p, "worker"), p)
			done := inFlight(t, agent, counting, true)
			server := mustRun(t, w.dataDir)
			if err := syscall.Kill(server, signal); err != nil {
				t.Fatal(err)
			}
			eventually.Succeeds(t, patience, "PostgreSQL is gone", func() error { return checkGone(server) })
			counting.Release()
			eventually.Succeeds(t, patience, "PostgreSQL is back", func() error {
				if _, ok := findPostmaster(w.dataDir); !ok {
					return errors.New("it is not")
				}
				return p.Ready()
			})
			wantEnd(t, agent, <-done, expectation{"succeeded", 1}, counting)
		})
	}
}

// TestDatabaseRestartedWhileParked: a response that is held open across a restart of PostgreSQL still gets its answer.
func TestDatabaseRestartedWhileParked(t *testing.T) {
	t.Parallel()
	w := newEmbeddedWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, strings.Replace(oneSkill(counting.URL, ""), "wait_budget: 2s", "wait_budget: 5m", 1))
	agent := w.newAgent(p, "worker")
	done := make(chan outcome, 1)
	go func() {
		answer, err := agent.CallTool(t.Context(), "counting__record", `{"n":1}`) // a single attempt
		done <- outcome{answer, err}
	}()
	if _, err := pendingFor(t.Context(), "1", p); err != nil {
		t.Fatal(err)
	}
	server := mustRun(t, w.dataDir)
	if err := syscall.Kill(server, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, "PostgreSQL is gone", func() error { return checkGone(server) })
	if err := <-approveUntilDecided(t, "1", newStubborn(agent, p)); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.answer.Text() != "recorded 1" {
		t.Errorf("the agent was told %s, %v", got.answer.Raw, got.err)
	}
	if n := counting.Count("1"); n != 1 {
		t.Errorf("it arrived %d times", n)
	}
}

// TestKilledWhileStarting: the first start is killed at a random moment, and the next one succeeds.
func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	w := newEmbeddedWorld(t)
	for range 8 {
		p := program.Start(t, w.serverOptions())
		_ = pause.For(t.Context(), rand.N(1200*time.Millisecond))
		p.Kill()
	}
	p := w.startServer()
	counting := skill.NewCounting(t)
	w.applyManifest(p, oneSkill(counting.URL, "auto_approve: true\n"))
	if answer, err := w.newAgent(p, "worker").CallTool(t.Context(), "counting__record", `{"n":1}`); err != nil || answer.Text() != "recorded 1" {
		t.Errorf("the agent was told %s, %v", answer.Raw, err)
	}
}

// TestEmbeddedCluster runs the lifecycle of the embedded cluster, as root and as an ordinary user.
func TestEmbeddedCluster(t *testing.T) {
	t.Parallel()
	t.Run("as I am", func(t *testing.T) {
		t.Parallel()
		embeddedLife(t, newEmbeddedWorld(t))
	})
	t.Run("as an ordinary user", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Log("the tests run as an ordinary user: the case above was this one")
			return
		}
		embeddedLife(t, ordinaryWorld(t))
	})
}

// ordinaryWorld runs the processes as the user nobody, with its own home and the default data directory.
func ordinaryWorld(t *testing.T) *world {
	t.Helper()
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("an unprivileged user is needed: %v", err)
	}
	uid, errUID := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(nobody.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	w := &world{t: t, dataDir: filepath.Join(home, ".local", "share", "holdpoint"), home: home}
	t.Cleanup(func() { endPostmaster(t, w.dataDir) })
	// Make the parent folders traversable, as those of homes are.
	if err := errors.Join(os.Chmod(filepath.Dir(home), 0o711), os.Chown(home, int(uid), int(gid))); err != nil {
		t.Fatal(err)
	}
	w.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return w
}

func embeddedLife(t *testing.T, w *world) {
	counting := skill.NewCounting(t)
	first := w.startServer()
	w.applyManifest(first, oneSkill(counting.URL, ""))
	server := mustRun(t, w.dataDir)
	backup := t.TempDir()
	runHere(t, backup, w.dataDir, backupCommands(t, "/postgres/password"))
	if dump, err := os.ReadFile(filepath.Join(backup, "holdpoint.dump")); err != nil || !bytes.HasPrefix(dump, []byte("PGDMP")) {
		t.Errorf("no backup of the embedded cluster was made: %v", err)
	}
	first.Kill()
	if err := checkGone(server); err == nil {
		t.Fatal("PostgreSQL ended with the process that was killed; it should have survived")
	}
	second := w.startServer()
	if adopted := mustRun(t, w.dataDir); adopted != server {
		t.Errorf("PostgreSQL is process %d, want the surviving %d to be adopted", adopted, server)
	}
	if out := newCLI(second, bootstrapToken).Must(t, "apply", "--json", "-f",
		writeFile(t, "same.yaml", oneSkill(counting.URL, ""))); strings.Contains(out, `"create"`) {
		t.Errorf("what was declared is not there any more: %s", out)
	}
	third := w.startServer()
	if err := second.Interrupt(t); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	if err := third.Ready(); err != nil {
		t.Errorf("the other process lost its database: %v", err)
	}
	if err := third.Interrupt(t); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	eventually.Succeeds(t, patience, "PostgreSQL ends with the last process", func() error { return checkGone(server) })
}
