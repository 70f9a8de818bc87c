package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// bench is one run: the program, the database cluster and the figures.
type bench struct {
	options
	getenv func(string) string
	stderr io.Writer
	root   string // of the module
	dir    string // for temporary files
	db     *postgres.DB
	report report
	stages int
}

func newBench(ctx context.Context, opts options, getenv func(string) string, stderr io.Writer) (_ *bench, err error) {
	b := &bench{options: opts, getenv: getenv, stderr: stderr}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.root, err = moduleRoot(ctx); err != nil {
		return nil, err
	}
	if b.out == resultsFile || b.out == peersFile {
		b.out = filepath.Join(b.root, b.out)
	}
	if b.dir, err = os.MkdirTemp("", "holdpoint-bench-"); err != nil {
		return nil, fmt.Errorf("make temporary directory: %w", err)
	}
	if err := os.Chmod(b.dir, 0o711); err != nil { //nolint:gosec // G302: PostgreSQL's account passes through
		return nil, fmt.Errorf("open temporary directory: %w", err)
	}
	if b.cpuProfile != "" {
		if err := os.MkdirAll(b.cpuProfile, 0o750); err != nil {
			return nil, fmt.Errorf("make directory for profiles: %w", err)
		}
	}
	if b.binary == "" {
		b.logf("building holdpoint")
		if err := b.buildProgram(ctx); err != nil {
			return nil, err
		}
	}
	b.logf("opening the database")
	b.db, err = postgres.Open(ctx, postgres.Config{
		DatabaseURL: b.database, DataDir: filepath.Join(b.dir, "database"), MaxConns: 4,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, err
	}
	return b, b.readMachine(ctx)
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	file := strings.TrimSpace(string(out))
	if err != nil || file == "" || file == os.DevNull {
		return "", errors.Join(errors.New("find the module: run this inside the repository"), err)
	}
	return filepath.Dir(file), nil
}

func (b *bench) buildProgram(ctx context.Context) error {
	b.binary = filepath.Join(b.dir, "holdpoint")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "./cmd/holdpoint") //nolint:gosec // G204: the arguments are ours
	cmd.Dir = b.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build holdpoint: %w\n%s", err, said)
	}
	return nil
}

func (b *bench) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.stderr, "bench: "+format+"\n", args...) // a terminal
}

// close removes the database and the temporary files.
func (b *bench) close() {
	if b.db != nil {
		if err := b.db.Close(context.Background()); err != nil {
			b.logf("%v", err)
		}
	}
	if b.dir != "" {
		if err := os.RemoveAll(b.dir); err != nil {
			b.logf("%v", err)
		}
	}
}

// choose returns full, or quick in a quick run.
func choose[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}
