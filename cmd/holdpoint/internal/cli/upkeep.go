package cli

import (
	"cmp"
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
		Use: "version", Short: "Print the version", Example: "  holdpoint version --json",
		RunE: func(*cobra.Command, []string) error {
			if !e.json {
				return write(e.Stdout, fmt.Sprintf("holdpoint %s (%s, %s/%s)\n", e.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
			}
			return e.printEncoded(map[string]string{
				"version": e.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			})
		},
	}
}

// database are the settings of commands that open the database, as in serve.
type database struct {
	dataDir string
	keyFile string
	kmsURI  string
}

func (d *database) bindFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&d.dataDir, "data-dir", "", "directory for the embedded database, keys and homes of skills")
	flags.StringVar(&d.keyFile, "encryption-key-file", "", "file of the key for secrets (default secret.keyset.json in the data directory)")
	BindKeysetKMS(cmd, &d.kmsURI)
}

// fillDefaults sets the defaults. Without a home directory, there is no data directory if database and key are elsewhere.
func (d *database) fillDefaults(e *Env) error {
	if d.dataDir == "" {
		dir, err := postgres.DefaultDataDir(e.Getenv)
		if err != nil && NeedsDataDir(e.Getenv("DATABASE_URL"), d.nameKey(e), "elsewhere") {
			return err
		}
		d.dataDir = dir
	}
	if d.keyFile == "" {
		d.keyFile = filepath.Join(d.dataDir, "secret.keyset.json")
	}
	return nil
}

// nameKey returns the key or its file, if it is not in the data directory.
func (d *database) nameKey(e *Env) string {
	return cmp.Or(e.Getenv("HOLDPOINT_ENCRYPTION_KEY"), d.keyFile)
}

func (d *database) postgresConfig(e *Env) postgres.Config {
	return postgres.Config{
		DatabaseURL: e.Getenv("DATABASE_URL"), SessionURL: e.Getenv(postgres.SessionURLVariable), DataDir: d.dataDir, MaxConns: 2,
	}
}

func (d *database) secretConfig(e *Env) secret.Config {
	return secret.Config{
		Keyset: e.Getenv("HOLDPOINT_ENCRYPTION_KEY"), KeysetName: "HOLDPOINT_ENCRYPTION_KEY", File: d.keyFile,
		KMS: KMS(KeysetKMS, d.kmsURI),
	}
}

// closeTimeout limits the closing of the database.
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
		Long: `Apply pending migrations to the database and print them. serve does the same when it starts; run this
to do it earlier.

If there is an encryption key, secrets that older keys of its keyset encrypted are then encrypted with
the primary key.`,
		Example: "  DATABASE_URL=postgres://holdpoint@db/holdpoint holdpoint migrate",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.fillDefaults(e); err != nil {
				return err
			}
			return e.migrateDatabase(cmd.Context(), d)
		},
	}
	d.bindFlags(cmd)
	return ServerSettings(cmd)
}

func (e *Env) migrateDatabase(ctx context.Context, d database) (err error) {
	config := d.postgresConfig(e)
	config.Logger = slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})) // notes while it waits for a lock
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
		resealed, err = e.resealSecrets(ctx, d, db)
	}
	if err != nil && len(applied) == 0 {
		return err
	}
	if printErr := e.printApplied(applied, resealed); err == nil {
		err = printErr
	}
	return err
}

// resealSecrets does nothing without a key: a database may be migrated from a machine without one, and a new key
// would decrypt nothing.
func (e *Env) resealSecrets(ctx context.Context, d database, db *postgres.DB) (int, error) {
	config := d.secretConfig(e)
	if e.Reseal == nil || config.Keyset == "" && !fileExists(config.File) {
		return 0, nil
	}
	box, err := secret.OpenContext(ctx, config)
	if err != nil {
		return 0, err
	}
	return e.Reseal(ctx, db, box)
}

func (e *Env) printApplied(applied []postgres.Applied, resealed int) error {
	if e.json {
		type row struct {
			Set     string `json:"set"`
			Version int    `json:"version"`
			Name    string `json:"name"`
		}
		rows := make([]row, len(applied))
		for i, a := range applied {
			rows[i] = row(a)
		}
		return e.printEncoded(struct {
			Items       []row `json:"items"`
			Reencrypted int   `json:"reencrypted"`
		}{rows, resealed})
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
