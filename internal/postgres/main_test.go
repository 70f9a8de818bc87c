package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// memberVariable makes the test binary a process that uses the cluster in this data directory until its standard input
// ends.
const memberVariable = "HOLDPOINT_TEST_MEMBER"

const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(memberVariable); dir != "" {
		if err := runMember(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(leaktest.Patient(m), goleak.Cleanup(func(code int) {
		if dir, err := prepared(); err == nil {
			_ = os.RemoveAll(dir) // a temporary directory
		}
		os.Exit(code)
	}))
}

func runMember(dir string, stdin io.Reader, stdout io.Writer) error {
	signal.Ignore(os.Interrupt) // as a process that shuts down gracefully
	ctx := context.Background()
	db, err := postgres.Open(ctx, postgres.Config{DataDir: dir, Settings: fastSettings()})
	if err != nil {
		return err
	}
	applied, err := postgres.Migrate(ctx, db, oneMigration())
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "applied %d\n", len(applied))
	if _, err := io.Copy(io.Discard, stdin); err != nil {
		return err
	}
	return db.Close(ctx)
}

func oneMigration() fstest.MapFS {
	return fstest.MapFS{"0001_init.sql": {Data: []byte("CREATE TABLE things (id int);")}}
}

// fastSettings has settings for clusters that live for one test.
func fastSettings() map[string]string { return map[string]string{"fsync": "off"} }

// member is a process that uses a cluster.
type member struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	applied int
}

func startMember(t *testing.T, binary, dir string, attr *syscall.SysProcAttr) *member {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), memberVariable+"="+dir)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("member did not get ready: %v, %v", err, cmd.Wait())
	}
	applied, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "applied ")))
	if err != nil {
		t.Fatal(err)
	}
	return &member{cmd: cmd, stdin: stdin, applied: applied}
}

func (m *member) leave(t *testing.T) {
	t.Helper()
	if err := m.stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := m.cmd.Wait(); err != nil {
		t.Errorf("member: %v", err)
	}
}

func (m *member) kill(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = m.cmd.Wait() // "signal: killed"
	_ = m.stdin.Close()
}

// dataDir returns a new directory that PostgreSQL's account can enter. As root, t.TempDir does not allow that.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Orphans of a killed process may still write.
		if err := eventually.Poll(context.WithoutCancel(t.Context()), patience, func() error { return os.RemoveAll(dir) }); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "data")
}

// prepared creates one cluster that tests copy, unless they test its creation.
var prepared = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	ctx := context.Background()
	db, err := postgres.Open(ctx, postgres.Config{DataDir: dir, Settings: fastSettings()})
	if err != nil {
		return "", err
	}
	return dir, db.Close(ctx)
})

// clusterDir returns a data directory with a cluster.
func clusterDir(t *testing.T) string {
	t.Helper()
	source, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	dir := dataDir(t)
	if output, err := exec.CommandContext(t.Context(), "cp", "-a", source, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the cluster: %v: %s", err, output)
	}
	return dir
}

func openDB(t *testing.T, cfg postgres.Config) *postgres.DB {
	t.Helper()
	if cfg.Settings == nil {
		cfg.Settings = fastSettings()
	}
	db, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

func closeDB(t *testing.T, db *postgres.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := db.Close(ctx); err != nil {
		t.Error(err)
	}
}

// findPostmaster returns the id of the server's process, or 0.
func findPostmaster(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func isAlive(pid int) bool { return pid != 0 && syscall.Kill(pid, 0) == nil }

func showSetting(t *testing.T, db *postgres.DB, setting string) string {
	t.Helper()
	var value string
	if err := db.Pool().QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
