package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// offered is what a new conversation of an agent would be offered.
type offered struct {
	Tools []struct {
		Name  string `json:"name"`
		Skill string `json:"skill"`
		Tool  string `json:"tool"`
		Pin   string `json:"pin"`
	} `json:"tools"`
	Problems []struct {
		Skill string `json:"skill"`
		Kind  string `json:"kind"`
		Error string `json:"error"`
	} `json:"problems"`
}

func newAgentToolsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "tools AGENT", Short: "List the tools that a new conversation of an agent would be offered",
		Long: `List the tools that a new conversation of an agent would be offered, by what is known of its skills:
no server is asked. The credential is that of an operator or a reviewer; skills whose tools are missing
are told on the standard error. What the agent itself sees lists "holdpoint tools".`,
		Example: "  holdpoint agent tools billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "agents/"+client.Segment(args[0])+"/tools", nil)
			if err != nil {
				return err
			}
			found, err := decode[offered](text)
			if err != nil {
				return err
			}
			for _, p := range found.Problems {
				e.notef("The tools of %s are missing (%s): %s", p.Skill, p.Kind, p.Error)
			}
			if e.json {
				return e.printJSON(text)
			}
			rows := make([][]string, len(found.Tools))
			for i, t := range found.Tools {
				rows[i] = []string{t.Name, t.Skill, t.Tool, t.Pin[:min(len(t.Pin), 12)]}
			}
			return e.table([]string{"NAME", "SKILL", "TOOL", "PIN"}, rows)
		},
	}
}

func newServerCmd(e *Env) *cobra.Command { return group("server", "The server", newServerShowCmd(e)) }

func newServerShowCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show how the server runs, and which others run beside it",
		Example: "  holdpoint server show",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "server", nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			s, err := decode[serverView](text)
			if err != nil {
				return err
			}
			return e.fields(s.pairs()...)
		},
	}
}

type serverView struct {
	Version            string   `json:"version"`
	PublicURL          string   `json:"public_url"`
	DataDir            string   `json:"data_dir"`
	Database           string   `json:"database"`
	Stdio              bool     `json:"stdio"`
	StdioFromDashboard bool     `json:"stdio_from_dashboard"`
	StdioAllow         []string `json:"stdio_allow"`
	StdioPaths         []string `json:"stdio_paths"`
	AllowSelfApproval  bool     `json:"allow_self_approval"`
	HighRiskMaxAge     string   `json:"high_risk_max_age"`
	TrustedHosts       []string `json:"trusted_hosts"`
	Instances          []struct {
		This      bool      `json:"this"`
		StartedAt time.Time `json:"started_at"`
	} `json:"instances"`
}

func (s *serverView) pairs() []string {
	pairs := []string{
		"version", s.Version, "public_url", s.PublicURL, "data_dir", s.DataDir, "database", s.Database,
		"stdio", strconv.FormatBool(s.Stdio), "stdio_from_dashboard", strconv.FormatBool(s.StdioFromDashboard),
		"stdio_allow", strings.Join(s.StdioAllow, "; "), "stdio_paths", strings.Join(s.StdioPaths, ", "),
		"allow_self_approval", strconv.FormatBool(s.AllowSelfApproval), "high_risk_max_age", s.HighRiskMaxAge,
		"trusted_hosts", strings.Join(s.TrustedHosts, ", "),
	}
	for _, i := range s.Instances {
		name := "another, since"
		if i.This {
			name = "this one, since"
		}
		pairs = append(pairs, name, moment(&i.StartedAt))
	}
	return pairs
}
