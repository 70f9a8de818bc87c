package skills

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// skillForm is the form of a skill. Its secrets are never sent to the browser.
type skillForm struct {
	name, transport, url, command string
	runAs, pathsRead, pathsWrite  string
	headers, env                  []shell.Pair
	settingsForm
	identity   agent.IdentityHeaders
	escalation string // one step in a line
	connection string
	oauth      oauthForm
	api        apiForm

	policyChoice view.Field // of the policy, for the form that is shown
}

type oauthForm struct {
	grant, issuer, clientID, authMethod, scopes string
	trustOrigin                                 bool
	idpIssuer, idpClientID                      string
	clientSecret, privateKey, idpClientSecret   string // only new input
	kept                                        []string
}

// emptySkillForm returns the form of a new skill.
func emptySkillForm() skillForm {
	s := agent.DefaultSkillSettings()
	return skillForm{
		transport: string(tool.HTTP), connection: agent.ConnectionShared, settingsForm: formOfSettings(&s), api: emptyAPIForm(),
	}
}

// formOfSkill returns the form with the current values of a skill.
func formOfSkill(s *agent.Skill) skillForm {
	f := skillForm{
		name: s.Name, transport: string(s.Transport), url: s.URL, command: strings.Join(s.Command, "\n"),
		runAs: s.RunAs, pathsRead: strings.Join(s.Paths.Read, "\n"), pathsWrite: strings.Join(s.Paths.Write, "\n"),
		headers: keptPairs(s.HeaderNames), env: keptPairs(s.EnvNames),
		settingsForm: formOfSettings(&s.SkillSettings), identity: s.IdentityHeaders, connection: agent.ConnectionShared, api: formOfAPI(s),
		escalation: approval.FormatEscalation(s.Escalation),
	}
	if s.PerUser {
		f.connection = agent.ConnectionPerUser
	}
	if o := s.OAuth; o != nil {
		f.oauth = oauthForm{
			grant: o.Grant, issuer: o.Issuer, clientID: o.ClientID, authMethod: o.AuthMethod,
			scopes: strings.Join(o.Scopes, " "), trustOrigin: o.TrustOrigin, idpIssuer: o.IDPIssuer, idpClientID: o.IDPClientID, kept: o.Secrets,
		}
	}
	return f
}

func keptPairs(names []string) []shell.Pair {
	var list []shell.Pair
	for _, name := range names {
		list = append(list, shell.Pair{Name: name, Kept: true})
	}
	return list
}

// readSkillForm reads the submitted form of a skill whose form was before.
func readSkillForm(r *http.Request, before skillForm) skillForm {
	f := skillForm{
		name: before.name, transport: before.transport, url: shell.Line(r, "url"), command: shell.Text(r, "command"),
		runAs: shell.Line(r, "run_as"), pathsRead: shell.Text(r, "paths.read"), pathsWrite: shell.Text(r, "paths.write"),
		headers: shell.ReadPairs(r, "headers", pairNames(before.headers)), env: shell.ReadPairs(r, "env", pairNames(before.env)),
		settingsForm: readSettings(r, before.settingsForm),
		identity: agent.IdentityHeaders{
			Enabled: shell.Ticked(r, "identity_headers.enabled"), Agent: shell.Line(r, "identity_headers.agent"),
			Call: shell.Line(r, "identity_headers.call"), Principal: shell.Line(r, "identity_headers.principal"),
		},
		escalation: shell.Text(r, "escalation"),
		connection: shell.Line(r, "connection"),
		oauth: oauthForm{
			grant: shell.Line(r, "oauth.grant"), issuer: shell.Line(r, "oauth.issuer"), clientID: shell.Line(r, "oauth.client_id"),
			authMethod: shell.Line(r, "oauth.auth_method"), scopes: shell.Line(r, "oauth.scopes"), trustOrigin: shell.Ticked(r, "oauth.trust_origin"),
			idpIssuer: shell.Line(r, "oauth.idp.issuer"), idpClientID: shell.Line(r, "oauth.idp.client_id"),
			clientSecret: r.PostFormValue("oauth.client_secret"), privateKey: shell.Text(r, "oauth.private_key"),
			idpClientSecret: r.PostFormValue("oauth.idp.client_secret"), kept: before.oauth.kept,
		},
		api: readAPIForm(r, before.api),
	}
	if before.name == "" {
		f.name = shell.Line(r, "name")
	}
	if chosen := shell.Line(r, "transport"); chosen != "" {
		f.transport = chosen
	}
	return f
}

func pairNames(pairs []shell.Pair) []string {
	var names []string
	for _, p := range pairs {
		names = append(names, p.Name)
	}
	return names
}

// secretTyped reports whether a secret was entered, which is not sent back.
func (f *skillForm) secretTyped() bool {
	o := &f.oauth
	return shell.Typed(f.headers) || shell.Typed(f.env) || o.clientSecret+o.privateKey+o.idpClientSecret+f.api.authSecret != ""
}

// splitCommand returns the program and its arguments, one per line.
func (f *skillForm) splitCommand() []string { return textLines(f.command) }

// textLines splits a text into lines. White space alone has no lines.
func textLines(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(strings.Trim(text, "\n"), "\n")
}

func (f *skillForm) splitPaths() tool.Paths {
	return tool.Paths{Read: textLines(f.pathsRead), Write: textLines(f.pathsWrite)}
}

// makeSpec returns the settings of a new skill.
func (f *skillForm) makeSpec(wrong *shell.Faults) agent.SkillSpec {
	spec := agent.SkillSpec{
		Name: f.name, Transport: tool.Transport(f.transport), URL: f.url, Command: f.splitCommand(), RunAs: f.runAs, Paths: new(f.splitPaths()),
		Headers: givenValues(wrong.Given("headers", f.headers)), Env: givenValues(wrong.Given("env", f.env)),
		IdentityHeaders: &f.identity, Connection: f.connection, Escalation: wrong.Escalation("escalation", f.escalation),
	}
	f.fillSpec(&spec, wrong)
	if o := f.oauth.makeSpec(); o != nil {
		spec.OAuth = o
	}
	return spec
}

// makePatch returns the changes to a skill. Only commands allows changes to its program.
func (f *skillForm) makePatch(wrong *shell.Faults, before *agent.Skill, commands bool) agent.SkillPatch {
	var patch agent.SkillPatch
	f.fillPatch(&patch, wrong)
	patch.Escalation = new(wrong.Escalation("escalation", f.escalation))
	if before.Transport == tool.Stdio && !commands {
		return patch
	}
	patch.Headers, patch.Connection = wrong.Given("headers", f.headers), &f.connection
	patch.IdentityHeaders = &f.identity
	patch.OAuth = f.oauth.makePatch(before.OAuth)
	if before.Transport.IsAPI() {
		patch.APIPatch = f.api.makePatch(wrong, before)
		return patch
	}
	patch.URL = &f.url
	if commands {
		patch.Transport, patch.Command, patch.Env = new(tool.Transport(f.transport)), new(f.splitCommand()), wrong.Given("env", f.env)
		patch.RunAs, patch.Paths = &f.runAs, new(f.splitPaths())
	}
	return patch
}

func givenValues(patch map[string]*string) map[string]string {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if patch[name] != nil {
			values[name] = *patch[name]
		}
	}
	return values
}

// dropOthers clears the fields that do not belong to the chosen grant and authentication method. Pages hide them.
func (o *oauthForm) dropOthers() {
	if o.grant != tool.EnterpriseManaged {
		o.idpIssuer, o.idpClientID, o.idpClientSecret = "", "", ""
	}
	switch o.authMethod {
	case tool.AuthBasic, tool.AuthPost:
		o.privateKey = ""
	case tool.AuthPrivateKey:
		o.clientSecret = ""
	case tool.AuthNone:
		o.clientSecret, o.privateKey = "", ""
	}
}

// makeSpec returns nil if all fields of the chosen grant and method are empty.
func (o *oauthForm) makeSpec() *agent.OAuthSpec {
	chosen := *o // the form keeps all fields, to be shown again
	o = &chosen
	o.dropOthers()
	spec := agent.OAuthSpec{
		Grant: o.grant, Issuer: o.issuer, ClientID: o.clientID, ClientSecret: o.clientSecret,
		AuthMethod: o.authMethod, PrivateKey: o.privateKey, Scopes: strings.Fields(o.scopes), TrustOrigin: o.trustOrigin,
	}
	idp := agent.IDPSpec{Issuer: o.idpIssuer, ClientID: o.idpClientID, ClientSecret: o.idpClientSecret}
	if idp != (agent.IDPSpec{}) {
		spec.IDP = &idp
	}
	if o.grant+o.issuer+o.clientID+o.clientSecret+o.authMethod+o.privateKey == "" && len(spec.Scopes) == 0 && !spec.TrustOrigin && spec.IDP == nil {
		return nil
	}
	return &spec
}

func (o *oauthForm) makePatch(before *agent.OAuth) agent.OAuthPatch {
	spec := o.makeSpec()
	switch {
	case spec != nil:
		return agent.OAuthPatch{OAuthSpec: *spec, Set: true}
	case before != nil:
		return agent.OAuthPatch{Remove: true}
	}
	return agent.OAuthPatch{}
}
