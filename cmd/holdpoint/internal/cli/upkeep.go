package cli

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/migrations"
)

func newVersionCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  holdpoint version --json", Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if !e.json {
				return write(e.Stdout, fmt.Sprintf("holdpoint %s (%s, %s/%s)\n", e.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
			}
			text, err := encoded(map[string]string{
				"version": e.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			})
			if err != nil {
				return err
			}
			return e.printJSON(text)
		},
	}
}

// database are the settings of commands that open it, as serve has them.
type database struct {
	dataDir string
	keyFile string
	kmsURI  string
}

func (d *database) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&d.dataDir, "data-dir", "", "directory for the embedded database, keys and homes of skills")
	flags.StringVar(&d.keyFile, "encryption-key-file", "", "file of the key for secrets (default secret.keyset.json in the data directory)")
	BindKeysetKMS(cmd, &d.kmsURI)
}

// complete fills in the defaults.
func (d *database) complete(e *Env) error {
	if d.dataDir == "" {
		dir, err := postgres.DefaultDataDir(e.Getenv)
		if err != nil {
			return err
		}
		d.dataDir = dir
	}
	if d.keyFile == "" {
		d.keyFile = filepath.Join(d.dataDir, "secret.keyset.json")
	}
	return nil
}

func (d *database) config(e *Env) postgres.Config {
	return postgres.Config{DatabaseURL: e.Getenv("DATABASE_URL"), DataDir: d.dataDir, MaxConns: 2}
}

func (d *database) secret(e *Env) secret.Config {
	return secret.Config{
		Keyset: e.Getenv("HOLDPOINT_ENCRYPTION_KEY"), KeysetName: "HOLDPOINT_ENCRYPTION_KEY", File: d.keyFile,
		KMS: KMS(KeysetKMS, d.kmsURI),
	}
}

// closeTimeout bounds the closing of the database.
const closeTimeout = 30 * time.Second

func closeDatabase(ctx context.Context, db *postgres.DB) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return db.Close(ctx)
}

func newMigrateCmd(e *Env) *cobra.Command {
	var d database
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database up to date",
		Long: `Bring the database up to date and print what was applied. serve does the same when it starts;
this is for those who want it to happen before.

Where there is an encryption key, secrets that older keys of its keyset had encrypted are then
encrypted with the one that encrypts now.`,
		Example: "  DATABASE_URL=postgres://holdpoint@db/holdpoint holdpoint migrate", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.complete(e); err != nil {
				return err
			}
			return e.migrate(cmd.Context(), d)
		},
	}
	d.bind(cmd)
	return ServerSettings(cmd)
}

func (e *Env) migrate(ctx context.Context, d database) (err error) {
	config := d.config(e)
	config.Logger = slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})) // what it waits for
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := closeDatabase(ctx, db); err == nil {
			err = closeErr
		}
	}()
	applied, err := postgres.Migrate(ctx, db, migrations.FS)
	resealed := 0
	if err == nil {
		resealed, err = e.reseal(ctx, d, db)
	}
	if err != nil && len(applied) == 0 {
		return err
	}
	if printErr := e.printApplied(applied, resealed); err == nil {
		err = printErr
	}
	return err
}

// reseal does nothing where there is no key: a database may be migrated from a machine that
// has none, and a new one would open nothing.
func (e *Env) reseal(ctx context.Context, d database, db *postgres.DB) (int, error) {
	config := d.secret(e)
	if e.Reseal == nil || config.Keyset == "" && !exists(config.File) {
		return 0, nil
	}
	box, err := secret.OpenContext(ctx, config)
	if err != nil {
		return 0, err
	}
	return e.Reseal(ctx, db, box)
}

// migrated is what migrate prints as JSON.
type migrated struct {
	Items       []appliedRow `json:"items"`
	Reencrypted int          `json:"reencrypted"`
}

type appliedRow struct {
	Set     string `json:"set"`
	Version int    `json:"version"`
	Name    string `json:"name"`
}

func (e *Env) printApplied(applied []postgres.Applied, resealed int) error {
	if e.json {
		items := make([]appliedRow, len(applied))
		for i, a := range applied {
			items[i] = appliedRow(a)
		}
		text, err := encoded(migrated{items, resealed})
		if err != nil {
			return err
		}
		return e.printJSON(text)
	}
	if len(applied) == 0 && resealed == 0 {
		return write(e.Stdout, "The database is up to date.\n")
	}
	for _, a := range applied {
		if err := write(e.Stdout, fmt.Sprintf("applied %s %d %s\n", a.Set, a.Version, a.Name)); err != nil {
			return err
		}
	}
	if resealed == 0 {
		return nil
	}
	return write(e.Stdout, fmt.Sprintf("re-encrypted secrets: %d\n", resealed))
}
