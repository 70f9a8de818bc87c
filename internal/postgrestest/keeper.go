package postgrestest

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	// keeperVariable makes a test binary the keeper of the cluster in the directory that it names.
	keeperVariable = "HOLDPOINT_TEST_KEEPER"

	keeperPoll    = 500 * time.Millisecond
	keeperLinger  = 4 // polls without a user, after which the cluster is stopped
	keeperLimit   = 5 * time.Minute
	keeperLogTail = 4 << 10
)

// init runs the keeper instead of the tests if the variable is set.
func init() { //nolint:gochecknoinits // the main function is that of the test
	dir := os.Getenv(keeperVariable)
	if dir == "" {
		return
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := place(dir).keepCluster(context.Background(), log); err != nil {
		log.Error("keep the test cluster", "error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hasKeeper reports whether a keeper runs.
func (p place) hasKeeper() (bool, error) {
	file, err := openLock(p.filePath("keeper"))
	if err != nil {
		return false, err
	}
	defer file.Close()
	free, err := tryLock(file, syscall.LOCK_EX)
	return !free, err
}

// startKeeper starts a keeper and returns when the cluster runs. The caller holds the transition lock.
func (p place) startKeeper(ctx context.Context) error {
	if err := os.Remove(p.filePath("url")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the URL of the last cluster: %w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test binary: %w", err)
	}
	log, err := os.Create(p.filePath("keeper.log"))
	if err != nil {
		return fmt.Errorf("make the keeper's log: %w", err)
	}
	defer log.Close()
	keeper := exec.Command(binary) //nolint:gosec,noctx // G204: this program; the keeper outlives this process
	keeper.Env = append(os.Environ(), keeperVariable+"="+string(p))
	keeper.Dir = string(p)
	keeper.Stdout, keeper.Stderr = log, log // `go test` would wait for the end of its own
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
		if _, err := os.Stat(p.filePath("url")); err == nil {
			return nil
		}
		ended, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		err := pause.For(ctx, lockPoll)
		if ended == pid || err != nil {
			output, _ := os.ReadFile(p.filePath("keeper.log"))
			return fmt.Errorf("start the keeper: it is not ready (%w): %s",
				errors.Join(err, errKeeper), output[max(0, len(output)-keeperLogTail):])
		}
	}
}

var errKeeper = errors.New("its log follows")

// keepCluster runs the cluster while there are users.
func (p place) keepCluster(ctx context.Context, log *slog.Logger) error {
	alive, err := openLock(p.filePath("keeper"))
	if err != nil {
		return err
	}
	defer alive.Close()
	if first, err := tryLock(alive, syscall.LOCK_EX); err != nil || !first {
		return err
	}
	db, err := p.openCluster(ctx, log)
	if err != nil {
		return err
	}
	if err := hashPasswordOnce(ctx, db); err != nil {
		return errors.Join(err, db.Close(ctx))
	}
	if err := p.publishURL(db.URL()); err != nil {
		return errors.Join(err, db.Close(ctx))
	}
	for {
		if err := p.awaitUnused(ctx); err != nil {
			return errors.Join(err, db.Close(ctx))
		}
		if ended, err := p.stopUnused(ctx, db, alive); ended || err != nil {
			return err
		}
	}
}

// hashPasswordOnce stores the password of the cluster with one iteration of its hash instead of 4096. Each connection of each test
// computes the hash, which took a tenth of the time of tests that use many connections.
func hashPasswordOnce(ctx context.Context, db *postgres.DB) error {
	config := db.Pool().Config().ConnConfig
	salt := rand.Text()
	salted, err := pbkdf2.Key(sha256.New, config.Password, []byte(salt), 1, sha256.Size)
	if err != nil {
		return fmt.Errorf("hash the password: %w", err)
	}
	sign := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(sign("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	verifier := fmt.Sprintf("SCRAM-SHA-256$1:%s$%s:%s", encode([]byte(salt)), encode(stored[:]), encode(sign("Server Key")))
	_, err = db.Pool().Exec(ctx, "ALTER ROLE "+pgx.Identifier{config.User}.Sanitize()+" PASSWORD '"+verifier+"'")
	if err != nil {
		return fmt.Errorf("hash the password: %w", err)
	}
	return nil
}

// awaitUnused returns after some time without users.
func (p place) awaitUnused(ctx context.Context) error {
	for idle := 0; idle < keeperLinger; idle++ {
		if err := pause.For(ctx, keeperPoll); err != nil {
			return err
		}
		used, err := p.isUsed()
		if err != nil {
			return err
		}
		if used {
			idle = -1
		}
	}
	return nil
}

// stopUnused stops the cluster, unless a user has arrived. It holds the transition lock, so that the next user finds a keeper
// that stays, or none.
func (p place) stopUnused(ctx context.Context, db *postgres.DB, alive *os.File) (bool, error) {
	transition, err := openLock(p.filePath("transition"))
	if err != nil {
		return false, errors.Join(err, db.Close(ctx))
	}
	defer transition.Close()
	if err := waitLock(ctx, transition, syscall.LOCK_EX); err != nil {
		return false, errors.Join(err, db.Close(ctx))
	}
	used, err := p.isUsed()
	if err != nil || used {
		return false, err
	}
	return true, errors.Join(db.Close(ctx), alive.Close())
}

// isUsed reports whether a test process uses the cluster.
func (p place) isUsed() (bool, error) {
	users, err := openLock(p.filePath("users"))
	if err != nil {
		return false, err
	}
	defer users.Close()
	free, err := tryLock(users, syscall.LOCK_EX)
	return !free, err
}

// publishURL writes the connection string to a file. Its timeout is long, for busy machines.
func (p place) publishURL(databaseURL string) error {
	unfinished := p.filePath("url.unfinished")
	if err := os.WriteFile(unfinished, []byte(databaseURL+"&connect_timeout=120\n"), 0o600); err != nil {
		return fmt.Errorf("publish the URL: %w", err)
	}
	if err := os.Rename(unfinished, p.filePath("url")); err != nil {
		return fmt.Errorf("publish the URL: %w", err)
	}
	return nil
}

// openCluster starts the cluster. It may not survive a crash of the machine: then it is deleted and made again.
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
	log.Warn("the test cluster does not start, making a new one", "error", err)
	if err := os.RemoveAll(filepath.Join(string(p), "postgres")); err != nil {
		return nil, fmt.Errorf("delete the cluster: %w", err)
	}
	return postgres.Open(ctx, cfg)
}
