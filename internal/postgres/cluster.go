package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	databaseName = "holdpoint"
	superuser    = "holdpoint"
	socketPort   = 5432

	startTimeout = 2 * time.Minute  // includes recovery after a crash
	stopTimeout  = 90 * time.Second // a shutdown writes a checkpoint
)

// cluster is this process's membership in an embedded cluster.
type cluster struct {
	dir       string // below the data directory
	pgData    string
	socketDir string
	account   account
	password  string // of the superuser
	server    server
	settings  map[string]string
	log       *slog.Logger

	transition *os.File // locked exclusively while the server is started or stopped
	members    *os.File // locked shared while this process uses the server

	supervisor sync.WaitGroup
	cancel     context.CancelFunc // ends the supervisor
}

// joinCluster makes this process a member of the cluster. It makes and starts the cluster if necessary.
func joinCluster(ctx context.Context, cfg Config) (*cluster, error) {
	c, err := locateCluster(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.openLocks(); err != nil {
		return nil, fmt.Errorf("open embedded cluster in %s: %w", c.dir, err)
	}
	if err := c.joinLocked(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, c.leaveCluster(stop))
	}
	return c, nil
}

// locateCluster finds the directories, the account and the server programs of the cluster.
func locateCluster(ctx context.Context, cfg Config) (*cluster, error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // PostgreSQL's account passes through; the files have stricter modes
	}
	dataDir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	dir := filepath.Join(dataDir, "postgres")
	if err := makeDir(dir, mode); err != nil {
		return nil, fmt.Errorf("open embedded cluster: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("open embedded cluster: %w", err)
	}
	if strings.ContainsAny(dir, "\"$`\\\n") {
		return nil, fmt.Errorf("open embedded cluster: PostgreSQL's tools cannot cope with the characters in %q; "+
			"name another data directory", dir)
	}
	c := &cluster{
		dir: dir, pgData: filepath.Join(dir, "data"),
		settings: cfg.Settings, log: cfg.Logger, cancel: func() {},
	}
	if c.account, err = clusterAccount(c.pgData); err != nil {
		return nil, err
	}
	if c.account.drop {
		if step, found := findBarrier(dir, c.account); found {
			return nil, fmt.Errorf("open embedded cluster: PostgreSQL runs as %s, who may not pass through %s to reach %s; "+
				"name another data directory, or let others pass (chmod o+x %s)", c.account.name, step, dir, step)
		}
	}
	major, err := clusterMajor(c.pgData)
	if err != nil {
		return nil, fmt.Errorf("open embedded cluster: %w", err)
	}
	if c.server, err = findServer(ctx, cfg.BinDirs, major); err != nil {
		return nil, fmt.Errorf("open embedded cluster in %s: %w", dir, err)
	}
	if c.socketDir, err = chooseSocketDir(dir); err != nil {
		return nil, fmt.Errorf("open embedded cluster: %w", err)
	}
	return c, nil
}

func (c *cluster) openLocks() (err error) {
	if c.transition, err = openLock(filepath.Join(c.dir, "lock")); err != nil {
		return err
	}
	if c.members, err = openLock(filepath.Join(c.dir, "members")); err != nil {
		return errors.Join(err, c.transition.Close())
	}
	return nil
}

// joinLocked joins the cluster while it holds the transition lock.
func (c *cluster) joinLocked(ctx context.Context) error {
	if err := waitLock(ctx, c.transition, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("open embedded cluster in %s: %w", c.dir, err)
	}
	defer c.unlockTransition()
	// Only a holder of the transition lock locks it exclusively.
	if err := waitLock(ctx, c.members, syscall.LOCK_SH); err != nil {
		return fmt.Errorf("open embedded cluster in %s: %w", c.dir, err)
	}
	if err := c.readPassword(); err != nil {
		return err
	}
	if err := c.ensureMade(ctx); err != nil {
		return err
	}
	if err := c.ensureRunning(ctx); err != nil {
		return err
	}
	if err := c.upgradeToPassword(ctx); err != nil {
		return fmt.Errorf("open embedded cluster in %s: %w", c.dir, err)
	}
	return c.ensureDatabase(ctx)
}

func (c *cluster) unlockTransition() {
	if err := syscall.Flock(int(c.transition.Fd()), syscall.LOCK_UN); err != nil {
		c.log.Error("embedded cluster: unlock", "error", err)
	}
}

// leaveCluster ends the membership, and stops the server if this was the last member.
func (c *cluster) leaveCluster(ctx context.Context) error {
	c.cancel()
	c.supervisor.Wait()
	defer c.transition.Close()
	defer c.members.Close()
	if err := waitLock(ctx, c.transition, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("leave embedded cluster in %s: %w", c.dir, err)
	}
	last, err := tryLock(c.members, syscall.LOCK_EX)
	if err != nil {
		return fmt.Errorf("leave embedded cluster in %s: %w", c.dir, err)
	}
	if !last {
		c.log.Info("embedded cluster: left to its other users", "dir", c.dir)
		return nil
	}
	return c.stopServer(ctx)
}

// databaseURL returns the connection string of one of the cluster's databases.
func (c *cluster) databaseURL(database string) string { return c.socketURL(c.socketDir, database) }

func (c *cluster) socketURL(dir, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.password), Path: "/" + database,
		RawQuery: url.Values{"host": {dir}, "port": {strconv.Itoa(socketPort)}}.Encode(),
	}
	return u.String()
}
