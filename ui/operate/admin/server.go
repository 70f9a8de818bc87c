package admin

import (
	"context"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Server has the settings in effect, without secrets.
type Server struct {
	Version            string
	DataDir            string
	EmbeddedDatabase   bool
	Stdio              bool     // skills may run programs on it
	StdioFromDashboard bool     // operators may set them in the dashboard
	StdioAllow         []string // the commands that they may run
	AllowSelfApproval  bool
	DualControl        bool // changes that loosen wait for a second operator
	SeparateRoles      bool // operator and reviewer are never one person
	TokensOff          bool // people have no personal tokens
	TrustedHosts       []string
	Ages               lifetime.Ages // how long records are kept
}

// describeServer tells how this server runs and which others run beside it.
func (h *SettingsHandler) describeServer(ctx context.Context) ([]view.Fact, error) {
	instances, err := h.calls.ListInstances(ctx)
	if err != nil {
		return nil, err
	}
	s := h.server
	database, selfApproval, trusted := text.SettingsDatabaseExternal(), text.SettingsNotAllowed(), text.SettingsTrustedHostsNone()
	if s.EmbeddedDatabase {
		database = text.SettingsDatabaseEmbedded()
	}
	if s.AllowSelfApproval {
		selfApproval = text.SettingsAllowed()
	}
	if len(s.TrustedHosts) > 0 {
		trusted = text.Literal(strings.Join(s.TrustedHosts, ", "))
	}
	list := []view.Fact{
		{Name: text.SettingsVersion(), Text: text.Literal(s.Version)},
		{Name: text.SettingsPublicURL(), Text: text.Literal(h.publicURL), Code: true},
		{Name: text.SettingsDataDirectory(), Text: text.Literal(s.DataDir), Code: true},
		{Name: text.SettingsDatabase(), Text: database},
		{Name: text.SettingsPrograms(), Text: describePrograms(s)},
		{Name: text.SettingsSelfApproval(), Text: selfApproval},
		{Name: text.SettingsDualControl(), Text: either(s.DualControl, text.SettingsDualControlOn(), text.SettingsDualControlOff())},
		{Name: text.SettingsSeparateRoles(), Text: either(s.SeparateRoles, text.SettingsRolesSeparate(), text.SettingsRolesTogether())},
		{Name: text.SettingsPersonTokens(), Text: either(s.TokensOff, text.SettingsPersonTokensOff(), text.SettingsPersonTokensOn())},
		{Name: text.SettingsHighRisk(), Text: text.SettingsHighRiskProof(present.DurationWords(h.proofAge))},
		{Name: text.SettingsTrustedHosts(), Text: trusted},
		{Name: text.SettingsKeepContent(), Text: describeAge(s.Ages.Content)},
		{Name: text.SettingsKeepCalls(), Text: describeAge(s.Ages.Calls)},
		{Name: text.SettingsKeepConversations(), Text: describeAge(s.Ages.Conversations)},
		{Name: text.SettingsKeepFiles(), Text: describeAge(s.Ages.Files)},
		{Name: text.SettingsKeepEvents(), Text: describeAge(s.Ages.Events)},
		{Name: text.SettingsInstances(), Text: text.SettingsInstanceCount(len(instances))},
	}
	for i := range instances {
		name := text.SettingsInstanceOther()
		if instances[i].Own {
			name = text.SettingsInstanceOwn()
		}
		list = append(list, view.Fact{Name: name, Time: &instances[i].StartedAt})
	}
	return list, nil
}

func either(on bool, yes, no text.Message) text.Message {
	if on {
		return yes
	}
	return no
}

func describeAge(age time.Duration) text.Message {
	if age == 0 {
		return text.SettingsKeepForever()
	}
	return text.Literal(present.DurationWords(age))
}

func describePrograms(s Server) text.Message {
	switch {
	case !s.Stdio:
		return text.SettingsProgramsOff()
	case len(s.StdioAllow) == 0:
		return text.SettingsProgramsNone()
	case s.StdioFromDashboard:
		return text.SettingsProgramsDashboard(strings.Join(s.StdioAllow, "; "))
	}
	return text.SettingsProgramsManifest(strings.Join(s.StdioAllow, "; "))
}
