// Package replica runs PostgreSQL servers of a test's own: a primary with a standby that follows it, for tests that kill the primary, and
// single servers, for tests that back up and restore.
package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
)

const patience = 3 * time.Minute

// Pair is a primary and its standby. Both let this machine in without a password.
type Pair struct {
	Primary, Standby *Server
}

// Server is a PostgreSQL server that ends with its test.
type Server struct {
	t    testing.TB
	dir  string
	port int
	bin  string
}

const database = "holdpoint"

// Start starts a pair with an empty database and a role without privileges that owns it. The primary's commits wait for a
// synchronous standby.
func Start(t testing.TB, synchronous bool) *Pair {
	t.Helper()
	p := &Pair{Primary: StartServer(t), Standby: NewServer(t)}
	p.Primary.Exec("CREATE DATABASE holdpoint OWNER holdpoint")
	p.Standby.run("pg_basebackup", "--pgdata="+p.Standby.dir, "--host=127.0.0.1", "--port="+strconv.Itoa(p.Primary.port), "--username=postgres",
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	p.Standby.Start()
	if synchronous {
		p.Primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	}
	p.awaitState(synchronous)
	return p
}

// StartServer starts a server with a role without privileges, holdpoint.
func StartServer(t testing.TB) *Server {
	t.Helper()
	s := NewServer(t)
	s.run("initdb", "--pgdata="+s.dir, "--username=postgres", "--encoding=UTF8", "--locale=C", "--auth=trust", "--no-sync")
	s.Start()
	s.Exec("CREATE ROLE holdpoint LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE")
	return s
}

func (p *Pair) awaitState(synchronous bool) {
	p.Primary.t.Helper()
	want := "async"
	if synchronous {
		want = "sync"
	}
	eventually.Succeeds(p.Primary.t, patience, "the standby follows", func() error {
		var state string
		err := p.Primary.query("SELECT coalesce(min(sync_state), 'none') FROM pg_stat_replication WHERE state = 'streaming'", &state)
		if err == nil && state != want {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
}

// URL returns a connection string that names both servers.
func (p *Pair) URL() string {
	return fmt.Sprintf("postgres://holdpoint@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=read-write",
		p.Primary.port, p.Standby.port, database)
}

// StandbyURL returns a connection string that names the standby.
func (p *Pair) StandbyURL() string { return p.Standby.URL() }

// PrimaryURL returns a connection string that names the primary.
func (p *Pair) PrimaryURL() string { return p.Primary.URL() }

// URL returns the connection string of the database holdpoint, for the role holdpoint.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://holdpoint@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Disconnect lets the standby lose what the primary commits from now on. It has all earlier commits.
func (p *Pair) Disconnect() {
	t := p.Primary.t
	t.Helper()
	var lsn string
	if err := p.Primary.query("SELECT pg_current_wal_insert_lsn()::text", &lsn); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, "the standby has everything", func() error {
		var done bool
		err := p.Standby.query("SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'", &done)
		if err == nil && !done {
			err = errors.New("it has not")
		}
		return err
	})
	p.Standby.Exec("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	eventually.Succeeds(t, patience, "the standby is disconnected", func() error {
		var n int
		err := p.Primary.query("SELECT count(*) FROM pg_stat_replication", &n)
		if err == nil && n > 0 {
			err = errors.New("it is connected")
		}
		return err
	})
}

// FailOver kills the primary and promotes the standby.
func (p *Pair) FailOver() {
	p.Primary.t.Helper()
	p.Primary.Kill()
	p.Standby.Exec("SELECT pg_promote()")
}

// NewServer returns a server that does not run. Its data directory is empty.
func NewServer(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdpoint-replica-")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // G302: the server's account reaches its folder through this one
	}
	listener, listenErr := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err = errors.Join(err, listenErr); err != nil {
		t.Fatal(err)
	}
	at, err := netip.ParseAddrPort(listener.Addr().String())
	s := &Server{t: t, dir: filepath.Join(dir, "data"), port: int(at.Port()), bin: findPrograms(t)}
	if err := errors.Join(err, listener.Close(), os.Mkdir(s.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if uid, gid, drop := account(t); drop {
		if err := errors.Join(os.Chown(dir, uid, gid), os.Chown(s.dir, uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// findPrograms returns the directory of the newest server programs.
func findPrograms(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_basebackup") // the only error is a bad pattern
	if path, err := exec.LookPath("pg_basebackup"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			found = append(found, resolved)
		}
	}
	found = slices.DeleteFunc(found, func(path string) bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(path), "initdb"))
		return err != nil
	})
	if len(found) == 0 {
		t.Fatal("PostgreSQL's server programs are needed and not installed; run `task setup`")
	}
	return filepath.Dir(found[len(found)-1])
}

// account returns the account that the programs run as, because PostgreSQL refuses to run as root.
func account(t testing.TB) (uid, gid int, drop bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, errUID := strconv.Atoi(found.Uid)
	gid, errGID := strconv.Atoi(found.Gid)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	return uid, gid, true
}

// run runs a program of PostgreSQL.
func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	s.runWith(nil, filepath.Join(s.bin, program), args...)
}

func (s *Server) runWith(env []string, program string, args ...string) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // G204: of this machine's PostgreSQL, or a script of a test
	cmd.Dir = s.Home()
	cmd.Env = append([]string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid, gid, drop := account(s.t); drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // G115: ids fit
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s %q: %v: %s", program, args, err, output)
	}
}

// Shell runs a script as the server's account, in [Server.Home], with added variables. PostgreSQL's programs find this server as the superuser.
func (s *Server) Shell(script string, env ...string) {
	s.t.Helper()
	env = append([]string{
		"PGHOST=127.0.0.1", "PGPORT=" + strconv.Itoa(s.port), "PGUSER=postgres", "PGDATABASE=postgres", "PGDATA=" + s.dir, "DATABASE_URL=" + s.URL(),
	}, env...)
	s.runWith(env, "/bin/sh", "-euc", script)
}

// Home returns a folder of the server's account. It contains the data directory.
func (s *Server) Home() string { return filepath.Dir(s.dir) }

// Start starts a server that does not run, such as after [Server.Kill].
func (s *Server) Start() {
	s.t.Helper()
	options := fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories= -c fsync=off -c max_connections=200 "+
		"-c timezone=UTC -c wal_receiver_timeout=10s -c hot_standby=on", s.port)
	s.run("pg_ctl", "start", "--silent", "--wait", "--timeout=120", "--pgdata="+s.dir, "--log="+filepath.Join(s.dir, "server.log"), "--options="+options)
}

// Exec runs statements as the superuser.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	conn, err := s.connect()
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	for _, statement := range statements {
		if _, err := conn.Exec(s.t.Context(), statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Query reads one value as the superuser.
func (s *Server) Query(sql string, into any) {
	s.t.Helper()
	if err := s.query(sql, into); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *Server) query(sql string, into any) error {
	conn, err := s.connect()
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	return conn.QueryRow(s.t.Context(), sql).Scan(into)
}

func (s *Server) connect() (*pgx.Conn, error) {
	return pgx.Connect(s.t.Context(), fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port))
}

// Kill kills the server with all its processes at once, as when its machine fails. It may have been killed before.
func (s *Server) Kill() {
	content, err := os.ReadFile(filepath.Join(s.dir, "postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || syscall.Kill(pid, syscall.SIGSTOP) != nil { // it starts no more processes
		return
	}
	for _, child := range listChildren(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	err = eventually.Poll(context.WithoutCancel(s.t.Context()), patience, func() error {
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(status), ") Z ") {
			return errors.New("PostgreSQL is still there")
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
	_ = os.Remove(filepath.Join(s.dir, "postmaster.pid")) // another process may get its number
}

func listChildren(pid int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			children = append(children, child)
		}
	}
	return children
}
