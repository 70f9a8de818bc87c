package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// server is the PostgreSQL server of the databases.
type server struct {
	adminURL string // of any database on it
}

// databaseURL returns the connection string of another database of the server.
func (s server) databaseURL(name string) string {
	if u, err := url.Parse(s.adminURL); err == nil && u.Scheme != "" {
		u.Path = "/" + name
		return u.String()
	}
	return s.adminURL + " dbname=" + name // the last one takes effect
}

// findServer returns the process's server, and starts it if necessary.
func findServer(ctx context.Context) (server, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.server.adminURL != "" {
		return shared.server, nil
	}
	found := server{adminURL: os.Getenv("DATABASE_URL")}
	if found.adminURL == "" {
		databaseURL, err := useCluster(ctx)
		if err != nil {
			return server{}, fmt.Errorf("use the test cluster: %w", err)
		}
		found.adminURL = databaseURL
	}
	shared.server = found
	return found, nil
}

// place is the directory of a user's test cluster.
type place string

func (p place) filePath(name string) string { return filepath.Join(string(p), name) }

// findPlace makes the directory, or uses an existing one of the user.
func findPlace() (place, error) {
	dir := filepath.Join(os.TempDir(), "holdpoint-tests-"+strconv.Itoa(os.Geteuid()))
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // PostgreSQL's account has to pass through
	}
	err := os.Mkdir(dir, mode)
	if err == nil {
		err = os.Chmod(dir, mode)
	} else if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("make its directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("examine its directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory of this user", dir)
	}
	return place(dir), nil
}

// useCluster keeps the cluster running until this process ends, and returns its connection string.
func useCluster(ctx context.Context) (string, error) {
	p, err := findPlace()
	if err != nil {
		return "", err
	}
	// The kernel releases this lock when the process ends. Its file is never closed.
	users, err := openLock(p.filePath("users"))
	if err != nil {
		return "", err
	}
	if err := waitLock(ctx, users, syscall.LOCK_SH); err != nil {
		return "", err
	}
	shared.users = users
	transition, err := openLock(p.filePath("transition"))
	if err != nil {
		return "", err
	}
	defer transition.Close()
	if err := waitLock(ctx, transition, syscall.LOCK_EX); err != nil {
		return "", err
	}
	kept, err := p.hasKeeper()
	if err != nil {
		return "", err
	}
	if !kept {
		if err := p.startKeeper(ctx); err != nil {
			return "", err
		}
	}
	return p.checkConnection(ctx)
}

// checkConnection returns the URL that the keeper published, after connecting to it.
func (p place) checkConnection(ctx context.Context) (string, error) {
	content, err := os.ReadFile(p.filePath("url"))
	if err != nil {
		return "", fmt.Errorf("read the URL of the cluster: %w", err)
	}
	databaseURL := strings.TrimSpace(string(content))
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	return databaseURL, conn.Close(ctx)
}

func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return file, nil
}

func tryLock(file *os.File, how int) (bool, error) {
	err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return true, nil
}

func waitLock(ctx context.Context, file *os.File, how int) error {
	for {
		if locked, err := tryLock(file, how); err != nil || locked {
			return err
		}
		if err := pause.For(ctx, lockPoll); err != nil {
			return fmt.Errorf("wait for the lock %s: %w", file.Name(), err)
		}
	}
}
