// Package pgbouncer runs PgBouncer before a test's PostgreSQL. A missing PgBouncer is an error; `task setup` installs it.
package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	startLimit = time.Minute
	probeEvery = 20 * time.Millisecond
)

// Bouncer is a running PgBouncer in transaction mode.
type Bouncer struct {
	dir     string
	address string
	ended   chan struct{}

	mu    sync.Mutex
	cmd   *exec.Cmd
	keeps bool // a program that ends is started again
}

// Start runs a PgBouncer until the test ends. See [Run].
func Start(tb testing.TB, databaseURL string, settings map[string]string) *Bouncer {
	tb.Helper()
	b, err := Run(tb.Context(), databaseURL, settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Stop(); err != nil {
			tb.Errorf("stop PgBouncer: %v", err)
		}
	})
	return b
}

// Run runs a PgBouncer for all databases of a server. Sessions rotate, so that a client soon gets another one. The settings are
// those of the section [pgbouncer]. A PgBouncer that ends is started again, because cancel requests crash versions before 1.21 now and then.
func Run(ctx context.Context, databaseURL string, settings map[string]string) (*Bouncer, error) {
	path, err := findProgram()
	if err != nil {
		return nil, err
	}
	server, err := pgconn.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	dir, err := os.MkdirTemp("", "holdpoint-pgbouncer-")
	if err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	b := &Bouncer{dir: dir, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), ended: make(chan struct{})}
	if err := b.start(ctx, path, writeConfig(server, port, settings)); err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	if err := b.awaitReady(ctx, server); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log")) // a missing log is the same as an empty one
		return nil, fmt.Errorf("start PgBouncer: %w: %s", errors.Join(err, b.Stop()), log)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeps = true
	return b, nil
}

func findProgram() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const path = "/usr/sbin/pgbouncer" // not on the PATH of users
	if _, err := os.Stat(path); err != nil {
		return "", errors.New("PgBouncer is needed and not installed; install it (Debian: apt-get install pgbouncer) or run `task setup`")
	}
	return path, nil
}

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // of a listener for tcp
}

func writeConfig(server *pgconn.Config, port int, settings map[string]string) string {
	all := map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(port), "unix_socket_dir": "",
		"auth_type": "any", "pool_mode": "transaction", "server_round_robin": "1",
		"max_client_conn": "1000", "default_pool_size": "20", "server_idle_timeout": "20",
		"log_connections": "0", "log_disconnections": "0",
	}
	maps.Copy(all, settings)
	var text strings.Builder
	quote := strings.NewReplacer("'", "''")
	fmt.Fprintf(&text, "[databases]\n* = host='%s' port=%d user='%s' password='%s'\n[pgbouncer]\n",
		quote.Replace(server.Host), server.Port, quote.Replace(server.User), quote.Replace(server.Password))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = %s\n", name, all[name])
	}
	return text.String()
}

// start starts the program as the account postgres if this process is root, because PgBouncer refuses to run as root.
func (b *Bouncer) start(ctx context.Context, path, config string) error {
	file := filepath.Join(b.dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
		err = errors.Join(errUID, errGID, os.Chown(b.dir, int(uid), int(gid)), os.Chown(file, int(uid), int(gid)))
		if err != nil {
			return err
		}
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	run := func() (*exec.Cmd, error) {
		log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		cmd := exec.CommandContext(context.WithoutCancel(ctx), path, file) //nolint:gosec // G204: the PgBouncer of this machine
		cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.SysProcAttr = log, log, "/", attributes
		return cmd, cmd.Start()
	}
	var err error
	if b.cmd, err = run(); err != nil {
		return err
	}
	go func() {
		defer close(b.ended)
		for cmd := b.cmd; cmd != nil; {
			_ = cmd.Wait() // it was killed, or crashed
			b.mu.Lock()
			cmd = nil
			if b.keeps {
				if again, err := run(); err == nil {
					cmd, b.cmd = again, again
				}
			}
			b.mu.Unlock()
		}
	}()
	return nil
}

func (b *Bouncer) awaitReady(ctx context.Context, server *pgconn.Config) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, b.databaseURL(server.User, server.Database))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-b.ended:
			return errors.New("it ended")
		default:
		}
		if late := pause.For(ctx, probeEvery); late != nil {
			return errors.Join(late, err)
		}
	}
}

// URL returns the connection string, through PgBouncer, of a database of its server.
func (b *Bouncer) URL(databaseURL string) string {
	server, err := pgconn.ParseConfig(databaseURL)
	if err != nil {
		return databaseURL
	}
	return b.databaseURL(server.User, server.Database)
}

func (b *Bouncer) databaseURL(name, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(name), Host: b.address, Path: "/" + database, RawQuery: "sslmode=disable&connect_timeout=120"}
	return u.String()
}

// Stop kills the program and removes its files.
func (b *Bouncer) Stop() error {
	b.mu.Lock()
	b.keeps = false
	_ = b.cmd.Process.Kill() // it may have ended
	b.mu.Unlock()
	<-b.ended
	return os.RemoveAll(b.dir)
}

// PID returns the id of the process.
func (b *Bouncer) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cmd.Process.Pid
}
