package ui

import (
	"context"
	"strings"

	"github.com/holdpoint/holdpoint/ui/view"
)

// Server is what a server's settings came to, without secrets.
type Server struct {
	Version            string
	DataDir            string
	EmbeddedDatabase   bool
	Stdio              bool     // skills may run programs on it
	StdioFromDashboard bool     // and operators may say here which
	StdioAllow         []string // the commands that they may run
	AllowSelfApproval  bool
	TrustedHosts       []string
}

// serverFacts say how this server runs, and which others run beside it.
func (u *UI) serverFacts(ctx context.Context) ([]view.Fact, error) {
	instances, err := u.cfg.Calls.Instances(ctx)
	if err != nil {
		return nil, err
	}
	s := u.cfg.Server
	list := []view.Fact{
		{Name: "Version", Text: s.Version},
		{Name: "Public URL", Text: u.cfg.PublicURL, Code: true},
		{Name: "Data directory", Text: s.DataDir, Code: true},
		{Name: "Database", Text: either(s.EmbeddedDatabase, "embedded, in the data directory", "external")},
		{Name: "Programs (stdio)", Text: stdioWords(s)},
		{Name: "Deciding one’s own calls", Text: either(s.AllowSelfApproval, "allowed", "not allowed")},
		{Name: "High risk", Text: "approving takes a sign-in of the last " + durationWords(u.cfg.ProofAge)},
		{Name: "Trusted hosts", Text: either(len(s.TrustedHosts) > 0, strings.Join(s.TrustedHosts, ", "), "none: what servers name must be public")},
		{Name: "Calls and audit events", Text: "kept without a limit of time"},
		{Name: "Servers alive", Text: plural(len(instances), "server", "servers")},
	}
	for i := range instances {
		name := "Another, since"
		if instances[i].Own {
			name = "This one, since"
		}
		list = append(list, view.Fact{Name: name, Time: &instances[i].StartedAt})
	}
	return list, nil
}

func either(yes bool, then, otherwise string) string {
	if yes {
		return then
	}
	return otherwise
}

func stdioWords(s Server) string {
	switch {
	case !s.Stdio:
		return "off"
	case len(s.StdioAllow) == 0:
		return "on, but none is allowed: start the server with --stdio-allow"
	case s.StdioFromDashboard:
		return "on; operators set them in the dashboard too. Allowed: " + strings.Join(s.StdioAllow, "; ")
	}
	return "on; set with holdpoint apply or the API. Allowed: " + strings.Join(s.StdioAllow, "; ")
}
