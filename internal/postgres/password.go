package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// passwordHBA lets nobody in without the password: a socket's directory keeps others out only while their account is another.
const passwordHBA = "# Written by Holdpoint.\nlocal all\tall scram-sha-256\n" //nolint:gosec,dupword // G101: no secret; all databases, all roles

// readPassword reads the password of the cluster, or makes one. The transition is locked.
func (c *cluster) readPassword() error {
	path := filepath.Join(c.dir, "password")
	text, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(text)) != "" {
		c.password = strings.TrimSpace(string(text))
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open embedded cluster: %w", err)
	}
	c.password = rand.Text()
	file, err := os.CreateTemp(c.dir, "password.*") // its mode is 0600
	if err != nil {
		return fmt.Errorf("open embedded cluster: %w", err)
	}
	_, err = file.WriteString(c.password + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("open embedded cluster: keep its password: %w", err)
	}
	return nil
}

// upgradeToPassword has a cluster that runs, and lets its owner in without a password, demand it: one that an older version
// made, and may have started. A process that ended before its reload left that to do.
func (c *cluster) upgradeToPassword(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(c.pgData, "pg_hba.conf"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, c.url("postgres"))
	if err != nil {
		return fmt.Errorf("connect to embedded cluster: %w", err)
	}
	defer conn.Close(ctx)
	var before time.Time
	if err := conn.QueryRow(ctx, "SELECT pg_conf_load_time()").Scan(&before); err != nil {
		return fmt.Errorf("set the cluster's password: %w", err)
	}
	if string(text) != passwordHBA {
		// A password of our own making: letters and digits.
		if _, err := conn.Exec(ctx, "SET password_encryption = 'scram-sha-256'; ALTER ROLE "+superuser+" PASSWORD '"+c.password+"'"); err != nil {
			return fmt.Errorf("set the cluster's password: %w", err)
		}
		if err := c.writeHBA(c.pgData); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return fmt.Errorf("let nobody in without a password: %w", err)
	}
	for loaded := before; loaded.Equal(before); { // a new connection begins with what the server has loaded
		if err := pause.For(ctx, probeEvery); err != nil {
			return fmt.Errorf("let nobody in without a password: %w", err)
		}
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err != nil {
			return fmt.Errorf("connect to embedded cluster: %w", err)
		}
		err = errors.Join(conn.QueryRow(ctx, "SELECT pg_conf_load_time()").Scan(&loaded), conn.Close(ctx))
		if err != nil {
			return fmt.Errorf("let nobody in without a password: %w", err)
		}
	}
	return nil
}

// demandPassword sets the password in a cluster that does not run, and has it let nobody in without.
func (c *cluster) demandPassword(ctx context.Context, pgData string) error {
	//nolint:gosec // G204: the program was found by findServer
	cmd := c.account.prepare(exec.CommandContext(ctx, c.server.program("postgres"), "--single", "-D", pgData, "-c", "password_encryption=scram-sha-256", "postgres"))
	// A password of our own making: letters and digits.
	cmd.Stdin = strings.NewReader("ALTER ROLE " + superuser + " PASSWORD '" + c.password + "'\n")
	if said, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(said), "ERROR:") {
		return commandError("set the cluster's password", errors.Join(err, errors.New("single-user mode refused it")), string(said))
	}
	return c.writeHBA(pgData)
}

// writeHBA lets nobody in without a password, once the server has read it.
func (c *cluster) writeHBA(pgData string) error {
	path := filepath.Join(pgData, "pg_hba.conf")
	aside := path + ".new"
	if err := os.WriteFile(aside, []byte(passwordHBA), 0o600); err != nil {
		return fmt.Errorf("let nobody in without a password: %w", err)
	}
	if err := c.account.own(aside); err != nil {
		return err
	}
	if err := os.Rename(aside, path); err != nil {
		return fmt.Errorf("let nobody in without a password: %w", err)
	}
	return nil
}
