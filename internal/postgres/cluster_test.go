package postgres_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

func TestOpenMakesClusterAndKeepsData(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	db := openDB(t, postgres.Config{DataDir: dir, Settings: map[string]string{}})
	for setting, want := range map[string]string{
		"listen_addresses": "", "fsync": "on", "server_encoding": "UTF8", "timezone": "UTC",
	} {
		if got := showSetting(t, db, setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	var collation string
	if err := db.Pool().QueryRow(t.Context(), "SELECT datcollate FROM pg_database WHERE datname = current_database()").Scan(&collation); err != nil || collation != "C" {
		t.Errorf("collation %q, error %v", collation, err)
	}
	if !db.Embedded() {
		t.Error("does not say that it is embedded")
	}
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS answer"); err != nil {
		t.Fatal(err)
	}
	pid := findPostmaster(t, dir)
	closeDB(t, db)
	closeDB(t, db) // closing twice is allowed
	if findPostmaster(t, dir) != 0 {
		t.Error("the server outlived its last user")
	}
	eventually.Holds(t, "the server ends", func() bool { return !isAlive(pid) })

	again := openDB(t, postgres.Config{DataDir: dir})
	var answer int
	if err := again.Pool().QueryRow(t.Context(), "SELECT answer FROM kept").Scan(&answer); err != nil || answer != 42 {
		t.Errorf("answer %d, error %v", answer, err)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	openDB(t, postgres.Config{DataDir: dir})
	for _, private := range []string{"run", "data"} {
		info, err := os.Stat(filepath.Join(dir, "postgres", private))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("mode of %s is %v", private, info.Mode())
		}
	}
}

func TestOpenAdoptsServerOfKilledProcess(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	child := startMember(t, os.Args[0], dir, nil)
	pid := findPostmaster(t, dir)
	child.kill(t)
	if !isAlive(pid) {
		t.Fatal("the server died with the process that started it")
	}
	db := openDB(t, postgres.Config{DataDir: dir})
	if got := findPostmaster(t, dir); got != pid {
		t.Errorf("server %d, want the surviving %d", got, pid)
	}
	closeDB(t, db)
	eventually.Holds(t, "the server ends", func() bool { return !isAlive(pid) })
}

func TestLastProcessStopsServer(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	first := startMember(t, os.Args[0], dir, nil)
	second := startMember(t, os.Args[0], dir, nil)
	third := startMember(t, os.Args[0], dir, nil)
	pid := findPostmaster(t, dir)
	first.leave(t)
	if !isAlive(pid) {
		t.Fatal("the first to leave stopped the server")
	}
	second.kill(t)
	if !isAlive(pid) {
		t.Fatal("the server died with the second")
	}
	third.leave(t)
	eventually.Holds(t, "the server ends", func() bool { return !isAlive(pid) })
	if findPostmaster(t, dir) != 0 {
		t.Error("the server left its postmaster.pid")
	}
}

func TestConcurrentOpenSharesOneServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			db, err := postgres.Open(t.Context(), postgres.Config{DataDir: dir, Settings: fastSettings()})
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Pool().Ping(t.Context()); err != nil {
				t.Error(err)
			}
			closeDB(t, db)
		})
	}
	all.Wait()
	if pid := findPostmaster(t, dir); pid != 0 {
		t.Errorf("server %d is left", pid)
	}
}

func TestTerminalInterruptSparesServer(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	child := startMember(t, os.Args[0], dir, &syscall.SysProcAttr{Setpgid: true})
	pid := findPostmaster(t, dir)
	if err := syscall.Kill(-child.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	db := openDB(t, postgres.Config{DataDir: dir})
	if err := db.Pool().Ping(t.Context()); err != nil || findPostmaster(t, dir) != pid {
		t.Errorf("server %d, error %v; want it to be %d still", findPostmaster(t, dir), err, pid)
	}
	child.leave(t)
}

func TestDeadServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	db := openDB(t, postgres.Config{DataDir: dir})
	pid := findPostmaster(t, dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the pool works again", func() bool {
		return db.Pool().Ping(t.Context()) == nil && findPostmaster(t, dir) != pid
	})
}

func TestServerStoppedByOperator(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	programs := dataDir(t)
	if err := os.MkdirAll(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.Symlink(filepath.Join(binDir(t), name), filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	// The server has stopped by the time that pg_ctl looks for it.
	program := fmt.Sprintf("#!/bin/sh\n[ $1 = stop ] && %[1]q \"$@\"\nexec %[1]q \"$@\"\n", filepath.Join(binDir(t), "pg_ctl"))
	if err := os.WriteFile(filepath.Join(programs, "pg_ctl"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{DataDir: dir, BinDirs: []string{programs}, Settings: fastSettings()})
	if err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
}

func TestPoolSurvivesRestartByOperator(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	db := openDB(t, postgres.Config{DataDir: dir})
	pid := findPostmaster(t, dir)
	data := filepath.Join(dir, "postgres", "data")
	restart := exec.CommandContext(t.Context(), filepath.Join(binDir(t), "pg_ctl"),
		"restart", "-s", "-w", "-m", "immediate", "-D", data, "-l", filepath.Join(data, "restart.log"))
	restart.Dir = "/"
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		stat := info.Sys().(*syscall.Stat_t)
		restart.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}}
	}
	if output, err := restart.CombinedOutput(); err != nil {
		t.Fatalf("restart: %v: %s", err, output)
	}
	eventually.Holds(t, "the pool works again", func() bool { return db.Pool().Ping(t.Context()) == nil })
	if findPostmaster(t, dir) == pid {
		t.Error("it was not restarted")
	}
}

// binDir returns the directory of the server programs.
func binDir(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatalf("no server programs: %v", err)
	}
	return found[len(found)-1]
}

func TestOddDataDir(t *testing.T) {
	t.Parallel()
	openDB(t, postgres.Config{DataDir: filepath.Join(dataDir(t), "it's, well; odd")})
	_, err := postgres.Open(t.Context(), postgres.Config{DataDir: filepath.Join(dataDir(t), "$HOME")})
	if err == nil || !strings.Contains(err.Error(), "name another data directory") {
		t.Errorf("error %v; want it to name the directory", err)
	}
}

func TestLongDataDirHasSocketElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), strings.Repeat("long/", 30))
	db := openDB(t, postgres.Config{DataDir: dir})
	sockets := showSetting(t, db, "unix_socket_directories")
	info, err := os.Stat(sockets)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket directory %s: %v, %v", sockets, info, err)
	}
	closeDB(t, db)
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("socket directory %s is left: %v", sockets, err)
	}
}

func TestStalePostmasterPidIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	db := openDB(t, postgres.Config{DataDir: dir})
	pidFile := filepath.Join(dir, "postgres", "data", "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	_, rest, _ := strings.Cut(string(content), "\n")
	if err := os.WriteFile(pidFile, []byte("999999999\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		giveToOwnerOf(t, filepath.Dir(pidFile), pidFile)
	}
	openDB(t, postgres.Config{DataDir: dir})
}

func giveToOwnerOf(t *testing.T, dir, file string) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(file, int(stat.Uid), int(stat.Gid)); err != nil {
		t.Fatal(err)
	}
}

func TestNoServerPrograms(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{DataDir: dataDir(t), BinDirs: []string{t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") ||
		!strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("error %v; want it to say what to install", err)
	}
}

func TestClusterOfMissingVersion(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	closeDB(t, openDB(t, postgres.Config{DataDir: dir}))
	version := filepath.Join(dir, "postgres", "data", "PG_VERSION")
	if err := os.WriteFile(version, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), postgres.Config{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "postgresql-99") {
		t.Errorf("error %v; want it to name postgresql-99", err)
	}
}

func TestServerThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{
		DataDir: clusterDir(t), Settings: map[string]string{"max_connections": "none"},
	})
	if err == nil || !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("error %v; want what the server output", err)
	}
}

func TestOpenNeedsPlace(t *testing.T) {
	t.Parallel()
	if _, err := postgres.Open(t.Context(), postgres.Config{}); err == nil {
		t.Error("no error without URL and directory")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{DataDir: file}); err == nil {
		t.Error("no error with a file as directory")
	}
}

func TestNobodyListensOnNetwork(t *testing.T) {
	t.Parallel()
	db := openDB(t, postgres.Config{DataDir: clusterDir(t)})
	var address *net.IPNet
	if err := db.Pool().QueryRow(t.Context(), "SELECT inet_server_addr()").Scan(&address); err != nil || address != nil {
		t.Errorf("address %v, error %v; want a socket", address, err)
	}
}
