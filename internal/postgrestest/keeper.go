package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	// keeperVariable makes a test binary the keeper of the cluster in that directory.
	keeperVariable = "HOLDPOINT_TEST_KEEPER"

	keeperPoll    = 500 * time.Millisecond
	keeperLinger  = 4 // polls without a user, after which the cluster is stopped
	keeperLimit   = 90 * time.Second
	keeperLogTail = 4 << 10
)

// A test binary is started again as the keeper before any test could run.
func init() { //nolint:gochecknoinits // the binary's own main function is not ours
	dir := os.Getenv(keeperVariable)
	if dir == "" {
		return
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := place(dir).keep(context.Background(), log); err != nil {
		log.Error("keep the test cluster", "error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hasKeeper reports whether a keeper lives.
func (p place) hasKeeper() (bool, error) {
	file, err := openLock(p.file("keeper"))
	if err != nil {
		return false, err
	}
	defer file.Close()
	free, err := tryLock(file, syscall.LOCK_EX)
	return !free, err
}

// startKeeper starts a keeper and returns when the cluster runs. The caller holds the
// transition lock.
func (p place) startKeeper(ctx context.Context) error {
	if err := os.Remove(p.file("url")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget the last cluster: %w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test binary: %w", err)
	}
	log, err := os.Create(p.file("keeper.log"))
	if err != nil {
		return fmt.Errorf("make the keeper's log: %w", err)
	}
	defer log.Close()
	keeper := exec.Command(binary) //nolint:gosec,noctx // G204: it is this very program, and outlives it
	keeper.Env = append(os.Environ(), keeperVariable+"="+string(p))
	keeper.Dir = string(p)
	keeper.Stdout, keeper.Stderr = log, log // not ours, for whose end `go test` waits
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := keeper.Start(); err != nil {
		return fmt.Errorf("start the keeper: %w", err)
	}
	pid := keeper.Process.Pid
	if err := keeper.Process.Release(); err != nil {
		return fmt.Errorf("start the keeper: %w", err)
	}
	return p.awaitKeeper(ctx, pid)
}

func (p place) awaitKeeper(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, keeperLimit)
	defer cancel()
	for {
		if _, err := os.Stat(p.file("url")); err == nil {
			return nil
		}
		ended, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		err := pause.For(ctx, lockPoll)
		if ended == pid || err != nil {
			said, _ := os.ReadFile(p.file("keeper.log"))
			return fmt.Errorf("start the keeper: it is not ready (%w): %s",
				errors.Join(err, errKeeper), said[max(0, len(said)-keeperLogTail):])
		}
	}
}

var errKeeper = errors.New("its log follows")

// keep runs the cluster as long as there are users.
func (p place) keep(ctx context.Context, log *slog.Logger) error {
	alive, err := openLock(p.file("keeper"))
	if err != nil {
		return err
	}
	defer alive.Close() // at the latest
	if first, err := tryLock(alive, syscall.LOCK_EX); err != nil || !first {
		return err
	}
	db, err := p.openCluster(ctx, log)
	if err != nil {
		return err
	}
	if err := p.publish(db.URL()); err != nil {
		return errors.Join(err, db.Close(ctx))
	}
	for {
		if err := p.awaitUnused(ctx); err != nil {
			return errors.Join(err, db.Close(ctx))
		}
		if ended, err := p.end(ctx, db, alive); ended || err != nil {
			return err
		}
	}
}

// awaitUnused returns when there was no user for a while.
func (p place) awaitUnused(ctx context.Context) error {
	for idle := 0; idle < keeperLinger; idle++ {
		if err := pause.For(ctx, keeperPoll); err != nil {
			return err
		}
		used, err := p.used()
		if err != nil {
			return err
		}
		if used {
			idle = -1
		}
	}
	return nil
}

// end stops the cluster, unless someone came just now. Whoever comes next
// finds either a keeper that stays, or none.
func (p place) end(ctx context.Context, db *postgres.DB, alive *os.File) (bool, error) {
	transition, err := openLock(p.file("transition"))
	if err != nil {
		return false, errors.Join(err, db.Close(ctx))
	}
	defer transition.Close()
	if err := waitLock(ctx, transition, syscall.LOCK_EX); err != nil {
		return false, errors.Join(err, db.Close(ctx))
	}
	used, err := p.used()
	if err != nil || used {
		return false, err
	}
	return true, errors.Join(db.Close(ctx), alive.Close())
}

// used reports whether a test process lives.
func (p place) used() (bool, error) {
	users, err := openLock(p.file("users"))
	if err != nil {
		return false, err
	}
	defer users.Close()
	free, err := tryLock(users, syscall.LOCK_EX)
	return !free, err
}

// publish writes down how to connect. A busy machine may take long to answer.
func (p place) publish(databaseURL string) error {
	unfinished := p.file("url.unfinished")
	if err := os.WriteFile(unfinished, []byte(databaseURL+"&connect_timeout=120\n"), 0o600); err != nil {
		return fmt.Errorf("write down how to connect: %w", err)
	}
	if err := os.Rename(unfinished, p.file("url")); err != nil {
		return fmt.Errorf("write down how to connect: %w", err)
	}
	return nil
}

// openCluster starts the cluster. It is not made to survive a crash of the
// machine; one that cannot be started is thrown away.
func (p place) openCluster(ctx context.Context, log *slog.Logger) (*postgres.DB, error) {
	cfg := postgres.Config{
		DataDir: string(p), MaxConns: 1, Logger: log,
		Settings: map[string]string{
			"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "max_connections": "600",
		},
	}
	db, err := postgres.Open(ctx, cfg)
	if err == nil {
		return db, nil
	}
	if _, statErr := os.Stat(filepath.Join(string(p), "postgres", "data")); statErr != nil {
		return nil, err
	}
	log.Warn("the test cluster does not start, making it anew", "error", err)
	if err := os.RemoveAll(filepath.Join(string(p), "postgres")); err != nil {
		return nil, fmt.Errorf("throw the cluster away: %w", err)
	}
	return postgres.Open(ctx, cfg)
}
