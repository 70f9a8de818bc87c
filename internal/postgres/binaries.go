package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// server is an installation of PostgreSQL's server programs.
type server struct {
	dir     string
	major   int
	version string
}

func (s server) programPath(name string) string { return filepath.Join(s.dir, name) }

// errNoServer tells the operator how to get PostgreSQL.
var errNoServer = errors.New("no PostgreSQL server programs (postgres, initdb, pg_ctl) of version 14 or newer on this machine; " +
	"install PostgreSQL (Debian and Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17) " +
	"or set DATABASE_URL to a running one")

// findServer returns the first installation in binDirs of a major version, or of any supported one if major is zero.
func findServer(ctx context.Context, binDirs []string, major int) (server, error) {
	if binDirs == nil {
		binDirs = usualBinDirs()
	}
	var seen []string
	for _, dir := range binDirs {
		found, ok := examineServer(ctx, dir)
		if !ok || found.major < oldestServer/10000 {
			continue
		}
		if major == 0 || found.major == major {
			return found, nil
		}
		seen = append(seen, found.version)
	}
	if len(seen) == 0 {
		return server{}, errNoServer
	}
	return server{}, fmt.Errorf("the cluster was made by PostgreSQL %d, and this machine has only %s; "+
		"install that version (Debian and Ubuntu: apt-get install postgresql-%d), or upgrade the cluster with pg_upgrade",
		major, strings.Join(seen, ", "), major)
}

// usualBinDirs returns the directory of the postgres on the PATH, then those of Debian, Homebrew and others, newest first.
func usualBinDirs() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(resolved))
		}
	}
	var others []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/usr/pgsql-*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the only error is a bad pattern
		others = append(others, found...)
	}
	slices.SortStableFunc(others, func(a, b string) int { return versionInPath(b) - versionInPath(a) })
	return append(dirs, others...)
}

func versionInPath(dir string) int {
	number, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(filepath.Base(filepath.Dir(dir))))
	return number
}

func examineServer(ctx context.Context, dir string) (server, bool) {
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode().Perm()&0o111 == 0 {
			return server{}, false
		}
	}
	//nolint:gosec // G204: in a directory for server programs, or one that the operator named
	output, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return server{}, false
	}
	version := regexp.MustCompile(`\d+(\.\d+)?`).FindString(string(output))
	number, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(number)
	if err != nil {
		return server{}, false
	}
	return server{dir: dir, major: major, version: version}, true
}

// clusterMajor returns the major version of the cluster in pgData, or zero if there is none yet.
func clusterMajor(pgData string) (int, error) {
	content, err := os.ReadFile(filepath.Join(pgData, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the cluster's version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("read the cluster's version in %s: %w", pgData, err)
	}
	return major, nil
}
