package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Stdio are the settings of the server about skills that run a program on it.
type Stdio struct {
	mode        string // "on", "off" or "": on if a command is allowed
	allow       lines
	paths       lines
	runAs       lines
	unsandboxed bool
}

// lines is a flag that may be given several times; in a variable, it has one value a line.
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

// Policy returns what the flags say. keep are files and folders that no skill may reach.
func (s *Stdio) Policy(keep ...string) (tool.StdioPolicy, error) {
	p := tool.StdioPolicy{On: len(s.allow) > 0, Paths: s.paths, RunAs: s.runAs, Unsandboxed: s.unsandboxed}
	switch s.mode {
	case "":
	case "on", "off":
		p.On = s.mode == "on"
	default:
		return p, misuse("--stdio %q: want on or off", s.mode)
	}
	for _, line := range s.allow {
		words, err := tool.SplitWords(line)
		if err != nil {
			return p, misuse("--stdio-allow %w", err)
		}
		p.Allow = append(p.Allow, words)
	}
	for _, dir := range s.paths {
		if _, err := tool.RealPath(dir); err != nil {
			return p, misuse("--stdio-paths %s: %w", dir, err)
		}
	}
	for _, path := range keep {
		if path != "" {
			p.Keep = append(p.Keep, path)
		}
	}
	return p, nil
}

// PolicyOfDemo is Policy of a server whose only operator is the person who started it: without further flags every command is allowed.
func (s *Stdio) PolicyOfDemo(keep ...string) (tool.StdioPolicy, error) {
	p, err := s.Policy(keep...)
	if s.mode == "" && len(p.Allow) == 0 {
		p.On, p.Allow = true, [][]string{{}}
	}
	return p, err
}
