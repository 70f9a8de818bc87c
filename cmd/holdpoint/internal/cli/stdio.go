package cli

import (
	"cmp"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Stdio are the server's settings of skills that run a program on it.
type Stdio struct {
	mode        string // "on", "off" or "": on if a command is allowed
	allow       lines
	paths       lines
	runAs       lines
	unsandboxed bool
}

// lines is a flag that may be repeated. A variable has one value a line.
type lines []string

func (l *lines) String() string { return strings.Join(*l, "\n") }
func (l *lines) Type() string   { return "stringArray" }

func (l *lines) Set(text string) error {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			*l = append(*l, line)
		}
	}
	return nil
}

// Bind adds the flags to a command of the server.
func (s *Stdio) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.mode, "stdio", "", `"on" or "off": whether skills may run commands on this server (default: on if --stdio-allow is given)`)
	flags.Var(&s.allow, "stdio-allow", "command that skills may run, with any further arguments, like 'npx -y PACKAGE@VERSION'; repeat for each")
	flags.Var(&s.paths, "stdio-paths", "folder below which such skills may declare paths to read and write; repeat for each")
	flags.Var(&s.runAs, "stdio-run-as", "account that such skills may name as run_as; repeat for each")
	flags.BoolVar(&s.unsandboxed, "stdio-unsandboxed", false, "run commands without a sandbox where the kernel has none")
}

// Policy returns the policy of the flags. No skill reaches the data directory, the database's sockets, these files, and the
// files of credentials that the environment names.
func (s *Stdio) Policy(e *Env, dataDir string, files ...string) (tool.StdioPolicy, error) {
	p := tool.StdioPolicy{On: len(s.allow) > 0, RunAs: s.runAs, Unsandboxed: s.unsandboxed, Hide: homeDirs(e)}
	switch s.mode {
	case "":
	case "on", "off":
		p.On = s.mode == "on"
	default:
		return p, misusef("--stdio %q: must be on or off", s.mode)
	}
	for _, line := range s.allow {
		words, err := tool.SplitWords(line)
		if err != nil {
			return p, misusef("--stdio-allow %w", err)
		}
		p.Allow = append(p.Allow, words)
	}
	for _, dir := range s.paths {
		_, err := tool.RealPath(dir)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return p, misusef("--stdio-paths %s: %w", dir, err)
		}
		p.Paths = append(p.Paths, dir)
	}
	config := postgres.Config{DatabaseURL: e.Getenv("DATABASE_URL"), SessionURL: e.Getenv(postgres.SessionURLVariable), DataDir: dataDir}
	keep := append(postgres.PrivatePaths(config, e.Getenv), dataDir)
	if settings := cmp.Or(e.config, "holdpoint.yaml"); fileExists(settings) { // a change of it may allow commands at the next start
		keep = append(keep, settings)
	}
	for _, name := range credentialFiles {
		keep = append(keep, e.Getenv(name))
	}
	for _, path := range append(keep, files...) {
		if path == "" || path == "-" {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return p, fmt.Errorf("resolve %s: %w", path, err)
		}
		p.Keep = append(p.Keep, path)
	}
	return p, nil
}

// credentialFiles are variables that name files of credentials for libraries of the server.
var credentialFiles = []string{
	"GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_CERTIFICATE_PATH",
}

// homeDirs are the home directories of the server's account, by the account itself and by the environment.
func homeDirs(e *Env) []string {
	candidates := []string{e.Getenv("HOME")}
	if account, err := user.Current(); err == nil {
		candidates = append(candidates, account.HomeDir)
	}
	return slices.DeleteFunc(candidates, func(dir string) bool { return !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" })
}

// PolicyOfDemo is [Stdio.Policy] for a server whose only operator is the person who started it: by default every command is
// allowed.
func (s *Stdio) PolicyOfDemo(e *Env, dataDir string, files ...string) (tool.StdioPolicy, error) {
	p, err := s.Policy(e, dataDir, files...)
	if s.mode == "" && len(p.Allow) == 0 {
		p.On, p.Allow = true, [][]string{{}}
	}
	return p, err
}
