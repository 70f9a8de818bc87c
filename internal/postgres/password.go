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

// passwordHBA requires the password from every client. The mode of the socket's directory excludes only other accounts.
const passwordHBA = "# Written by Holdpoint.\nlocal all\tall scram-sha-256\n" //nolint:gosec,dupword // G101: no secret; all databases, all roles

// readPassword reads the password of the cluster, or makes one. The caller holds the transition lock.
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

// upgradeToPassword makes a running cluster of an older version require the password. It also completes an upgrade that
// another process did not finish.
func (c *cluster) upgradeToPassword(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(c.pgData, "pg_hba.conf"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, c.databaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to embedded cluster: %w", err)
	}
	defer conn.Close(ctx)
	var before time.Time
	if err := conn.QueryRow(ctx, "SELECT pg_conf_load_time()").Scan(&before); err != nil {
		return fmt.Errorf("set the cluster's password: %w", err)
	}
	if string(text) != passwordHBA {
		// The password needs no quoting: it has only letters and digits.
		if _, err := conn.Exec(ctx, "SET password_encryption = 'scram-sha-256'; ALTER ROLE "+superuser+" PASSWORD '"+c.password+"'"); err != nil {
			return fmt.Errorf("set the cluster's password: %w", err)
		}
		if err := c.writeHBA(c.pgData); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return fmt.Errorf("require a password: %w", err)
	}
	for loaded := before; loaded.Equal(before); { // only a new connection shows the loaded configuration
		if err := pause.For(ctx, probeEvery); err != nil {
			return fmt.Errorf("require a password: %w", err)
		}
		conn, err := pgx.Connect(ctx, c.databaseURL("postgres"))
		if err != nil {
			return fmt.Errorf("connect to embedded cluster: %w", err)
		}
		err = errors.Join(conn.QueryRow(ctx, "SELECT pg_conf_load_time()").Scan(&loaded), conn.Close(ctx))
		if err != nil {
			return fmt.Errorf("require a password: %w", err)
		}
	}
	return nil
}

// demandPassword sets the password in a cluster that does not run, and requires it from every client.
func (c *cluster) demandPassword(ctx context.Context, pgData string) error {
	//nolint:gosec // G204: the program was found by findServer
	cmd := c.account.prepareCommand(exec.CommandContext(ctx, c.server.programPath("postgres"), "--single", "-D", pgData, "-c", "password_encryption=scram-sha-256", "postgres"))
	// The password needs no quoting: it has only letters and digits.
	cmd.Stdin = strings.NewReader("ALTER ROLE " + superuser + " PASSWORD '" + c.password + "'\n")
	if output, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(output), "ERROR:") {
		return commandError("set the cluster's password", errors.Join(err, errors.New("single-user mode refused the statement")), string(output))
	}
	return c.writeHBA(pgData)
}

// writeHBA writes the file that requires the password. The server has to reload it.
func (c *cluster) writeHBA(pgData string) error {
	path := filepath.Join(pgData, "pg_hba.conf")
	aside := path + ".new"
	if err := os.WriteFile(aside, []byte(passwordHBA), 0o600); err != nil {
		return fmt.Errorf("require a password: %w", err)
	}
	if err := c.account.chownFile(aside); err != nil {
		return err
	}
	if err := os.Rename(aside, path); err != nil {
		return fmt.Errorf("require a password: %w", err)
	}
	return nil
}
