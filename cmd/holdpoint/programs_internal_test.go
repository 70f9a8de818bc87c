package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestNoSkillReachesTheServersFiles: not the data directory, however it is named, and no file of credentials.
func TestNoSkillReachesTheServersFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	for _, name := range []string{
		"data/postgres", "keyset", "providers", "issuers", "workload", "metrics", "bootstrap", "holdpoint.yaml", "uploads", "key", "passwords", "cloud", "open", "sockets",
	} {
		check(t, os.MkdirAll(name, 0o700))
	}
	env := map[string]string{
		"DATABASE_URL":                   "postgres://holdpoint@/holdpoint?host=" + dir + "/sockets&passfile=" + dir + "/passwords&sslkey=" + dir + "/key",
		"GOOGLE_APPLICATION_CREDENTIALS": dir + "/cloud",
	}
	settings := serverSettings{
		DataDir: "data", EncryptionKeyFile: "keyset", Providers: cli.Providers{File: "providers"}, TokenIssuers: cli.TokenIssuers{File: "issuers"},
		Outward: cli.Outward{WorkloadTokenFile: "workload"}, Edge: cli.Edge{MetricsTokenFile: "metrics", MaxConnections: 1, MaxConnectionsPerAddress: 1},
		Bootstrap: cli.Bootstrap{File: "bootstrap"}, FilesURL: "file://" + dir + "/uploads",
	}
	check(t, settings.readEnvironment(&cli.Env{Getenv: func(name string) string { return env[name] }}))
	settings.Programs.On, settings.Programs.Allow, settings.Programs.Paths = true, [][]string{{}}, []string{dir}
	for _, name := range []string{
		"", "data", "data/postgres", "keyset", "providers", "issuers", "workload", "metrics", "bootstrap", "holdpoint.yaml", "uploads", "sockets", "key", "passwords", "cloud",
	} {
		path := filepath.Join(dir, name)
		refusals := settings.Programs.Check([]string{"x"}, "", tool.Paths{Read: []string{path}}, nil)
		if len(refusals) != 1 || !strings.Contains(refusals[0].Message, "must not contain") {
			t.Errorf("%s: %v", path, refusals)
		}
	}
	for _, path := range settings.Programs.Keep {
		if !filepath.IsAbs(path) {
			t.Errorf("the sandbox, which works elsewhere, is given %q", path)
		}
	}
	if refusals := settings.Programs.Check([]string{"x"}, "", tool.Paths{Read: []string{dir + "/open"}}, nil); len(refusals) != 0 {
		t.Errorf("another folder: %v", refusals)
	}

	settings.DatabaseURL, env["DATABASE_URL"] = "", ""
	settings.DataDir = filepath.Join(dir, strings.Repeat("long", 30)) // too long for a socket
	check(t, settings.readEnvironment(&cli.Env{Getenv: func(name string) string { return env[name] }}))
	if keep := strings.Join(settings.Programs.Keep, " "); !strings.Contains(keep, "/tmp/holdpoint-") {
		t.Errorf("the socket outside the data directory may be reached: %s", keep)
	}
}
