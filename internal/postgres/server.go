package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	probeEvery   = 20 * time.Millisecond
	silenceLimit = 3 * time.Second // a server that does not answer for so long is started again
	maxLogSize   = 16 << 20
	logTail      = 2 << 10
)

// ensureMade runs initdb, unless the cluster exists. It makes the cluster under another name and renames it, so that no
// incomplete cluster is used.
func (c *cluster) ensureMade(ctx context.Context) error {
	if _, err := os.Stat(c.pgData); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make embedded cluster: %w", err)
	}
	c.clearUnfinished()
	// The name is unique: initdb of a killed process may still write to its own.
	unfinished := c.pgData + unfinishedSuffix + rand.Text()
	if err := privateDir(unfinished, c.account); err != nil {
		return fmt.Errorf("make embedded cluster: %w", err)
	}
	args := []string{
		"--pgdata=" + unfinished, "--username=" + superuser, "--encoding=UTF8", "--locale=C",
		"--auth-local=reject", "--auth-host=reject", "--no-instructions",
	}
	if c.settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	//nolint:gosec // G204: the program was found by findServer
	cmd := c.account.prepareCommand(exec.CommandContext(ctx, c.server.programPath("initdb"), args...))
	if output, err := cmd.CombinedOutput(); err != nil {
		return commandError("make embedded cluster in "+c.dir+": initdb", err, string(output))
	}
	if err := c.demandPassword(ctx, unfinished); err != nil {
		return fmt.Errorf("make embedded cluster: %w", err)
	}
	if err := os.Rename(unfinished, c.pgData); err != nil {
		return fmt.Errorf("make embedded cluster: %w", err)
	}
	c.log.Info("embedded cluster: made", "dir", c.dir, "version", c.server.version)
	return nil
}

const unfinishedSuffix = ".unfinished."

// clearUnfinished removes the files of interrupted attempts, as far as it can.
func (c *cluster) clearUnfinished() {
	leftovers, err := filepath.Glob(c.pgData + unfinishedSuffix + "*")
	for _, dir := range leftovers {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		c.log.Info("embedded cluster: leftovers stay for now", "dir", c.dir, "error", err)
	}
}

// ensureRunning starts the server unless it runs, and returns when the server answers. A server that is starting or stopping
// is waited for.
func (c *cluster) ensureRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("the server did not answer within %s, see %s", startTimeout, c.logPath()))
	defer cancel()
	silence := time.Duration(0) // of a running server
	for started := false; ; silence += probeEvery {
		pm, found, err := readPostmaster(c.pgData)
		if err != nil {
			return fmt.Errorf("start embedded cluster: %w", err)
		}
		running := found && pm.isAlive()
		if running {
			answers, busy := c.probeServer(ctx, pm)
			if answers {
				c.socketDir = pm.socketDir
				c.log.Info("embedded cluster: server runs", "dir", c.dir, "pid", pm.pid, "version", c.server.version, "adopted", !started)
				return nil
			}
			if busy {
				silence = 0
			}
		}
		if !running || silence >= silenceLimit {
			if started, err = c.startServer(ctx); err != nil {
				return err
			}
			silence = 0
		}
		if err := pause.For(ctx, probeEvery); err != nil {
			return fmt.Errorf("start embedded cluster in %s: %w", c.dir, err)
		}
	}
}

// probeServer reports whether the server answers. busy means that it recovers or shuts down.
func (c *cluster) probeServer(ctx context.Context, pm postmaster) (answers, busy bool) {
	if pm.socketDir == "" || pm.port != socketPort {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.socketURL(pm.socketDir, "postgres"))
	if err != nil {
		var refused *pgconn.PgError
		return false, errors.As(err, &refused)
	}
	defer conn.Close(ctx)
	var pgData string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&pgData); err != nil {
		return false, false
	}
	return sameDir(pgData, c.pgData), false
}

// sameDir compares directories, which may have several paths.
func sameDir(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// startServer runs pg_ctl, which returns when the server accepts connections. While children of a killed server are ending,
// it returns false and no error.
func (c *cluster) startServer(ctx context.Context) (started bool, err error) {
	if err := privateDir(c.socketDir, c.account); err != nil {
		return false, fmt.Errorf("start embedded cluster: %w", err)
	}
	output, err := c.runPgCtl(ctx)
	switch {
	case err == nil:
		return true, nil
	case strings.Contains(output, "is still in use"):
		return false, nil
	default:
		return false, commandError("start embedded cluster in "+c.dir+": pg_ctl", err, output)
	}
}

// runPgCtl starts the server. With an error, it returns the new text in the server's log.
func (c *cluster) runPgCtl(ctx context.Context) (output string, err error) {
	logFile, err := c.openLog()
	if err != nil {
		return "", err
	}
	defer logFile.Close()
	before, err := logFile.Seek(0, io.SeekEnd)
	if err != nil {
		return "", fmt.Errorf("read the server's log: %w", err)
	}
	//nolint:gosec // G204: the program was found by findServer
	cmd := c.account.prepareCommand(exec.CommandContext(ctx, c.server.programPath("pg_ctl"), "start", "--silent", "--wait",
		"--timeout="+strconv.Itoa(int(startTimeout.Seconds())), "--pgdata="+c.pgData, "--options="+c.serverOptions()))
	cmd.Stdout, cmd.Stderr = logFile, logFile                             // a file, not a pipe: the server keeps it open
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // pg_ctl passes it on to the server
	cmd.WaitDelay = stopTimeout
	if err = cmd.Run(); err == nil {
		return "", nil
	}
	tail := make([]byte, logTail)
	n, _ := logFile.ReadAt(tail, before) // a short log is no error
	return string(tail[:n]), err
}

// stopServer shuts the server down: it disconnects clients and writes a checkpoint. It is not an error if an operator stops the server meanwhile.
func (c *cluster) stopServer(ctx context.Context) error {
	pm, found, err := readPostmaster(c.pgData)
	if err != nil {
		return fmt.Errorf("stop embedded cluster: %w", err)
	}
	if !found || !pm.isAlive() {
		return nil
	}
	//nolint:gosec // G204: the program was found by findServer
	cmd := c.account.prepareCommand(exec.CommandContext(ctx, c.server.programPath("pg_ctl"), "stop", "--silent", "--wait",
		"--timeout="+strconv.Itoa(int(stopTimeout.Seconds())), "--mode=fast", "--pgdata="+c.pgData))
	if output, err := cmd.CombinedOutput(); err != nil {
		if _, found, readErr := readPostmaster(c.pgData); found || readErr != nil { // the server removes its file last
			return commandError("stop embedded cluster in "+c.dir+": pg_ctl", err, string(output))
		}
	}
	c.removeSocketDir()
	c.log.Info("embedded cluster: stopped", "dir", c.dir)
	return nil
}

// serverOptions returns the server's settings, quoted for the shell of pg_ctl.
func (c *cluster) serverOptions() string {
	settings := map[string]string{
		"listen_addresses":        "",
		"port":                    strconv.Itoa(socketPort),
		"unix_socket_directories": c.socketDir,
		"unix_socket_permissions": "0700",
		"cluster_name":            "holdpoint",
		"fsync":                   "on",
		"max_connections":         "200",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_destination":         "stderr",
		"logging_collector":       "off",
		"log_checkpoints":         "off",
		// Statements and their values are confidential.
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
	}
	maps.Copy(settings, c.settings)
	var options strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := strings.ReplaceAll(name+"="+settings[name], "'", `'\''`)
		options.WriteString(" -c '" + value + "'")
	}
	return options.String()
}

func (c *cluster) logPath() string { return filepath.Join(c.dir, "log") }

// openLog opens the server's log. It starts a new one if the log is large.
func (c *cluster) openLog() (*os.File, error) {
	path := c.logPath()
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("start a new log: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	return file, nil
}

// ensureDatabase makes the database, unless it exists.
func (c *cluster) ensureDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.databaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to embedded cluster: %w", err)
	}
	defer conn.Close(ctx)
	var there bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", databaseName).Scan(&there)
	if err == nil && !there {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{databaseName}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("make the database in the embedded cluster: %w", err)
	}
	return nil
}
