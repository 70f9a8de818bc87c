package skills

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// skillForm is what a form says of a skill. Its secrets are never sent back.
type skillForm struct {
	name, transport, url, command string
	runAs, pathsRead, pathsWrite  string
	headers, env                  []shell.Pair
	settingsForm
	identity   agent.IdentityHeaders
	connection string
	oauth      oauthForm
	api        apiForm
}

type oauthForm struct {
	grant, issuer, clientID, authMethod, scopes string
	trustOrigin                                 bool
	idpIssuer, idpClientID                      string
	clientSecret, privateKey, idpClientSecret   string // only what was typed
	kept                                        []string
}

// emptySkillForm is that of a skill yet to be registered.
func emptySkillForm() skillForm {
	s := agent.DefaultSkillSettings()
	return skillForm{
		transport: string(tool.HTTP), connection: agent.ConnectionShared, settingsForm: formOfSettings(&s), api: emptyAPIForm(),
	}
}

// formOfSkill is how a skill is at present.
func formOfSkill(s *agent.Skill) skillForm {
	f := skillForm{
		name: s.Name, transport: string(s.Transport), url: s.URL, command: strings.Join(s.Command, "\n"),
		runAs: s.RunAs, pathsRead: strings.Join(s.Paths.Read, "\n"), pathsWrite: strings.Join(s.Paths.Write, "\n"),
		headers: keptPairs(s.HeaderNames), env: keptPairs(s.EnvNames),
		settingsForm: formOfSettings(&s.SkillSettings), identity: s.IdentityHeaders, connection: agent.ConnectionShared, api: formOfAPI(s),
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

// readSkillForm reads what was sent about a skill that was as before says.
func readSkillForm(r *http.Request, before skillForm) skillForm {
	f := skillForm{
		name: before.name, transport: before.transport, url: shell.Line(r, "url"), command: shell.Text(r, "command"),
		runAs: shell.Line(r, "run_as"), pathsRead: shell.Text(r, "paths.read"), pathsWrite: shell.Text(r, "paths.write"),
		headers: shell.ReadPairs(r, "headers", namesOf(before.headers)), env: shell.ReadPairs(r, "env", namesOf(before.env)),
		settingsForm: readSettings(r, before.settingsForm),
		identity: agent.IdentityHeaders{
			Enabled: shell.Ticked(r, "identity_headers.enabled"), Agent: shell.Line(r, "identity_headers.agent"),
			Call: shell.Line(r, "identity_headers.call"), Principal: shell.Line(r, "identity_headers.principal"),
		},
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

func namesOf(pairs []shell.Pair) []string {
	var names []string
	for _, p := range pairs {
		names = append(names, p.Name)
	}
	return names
}

// secretTyped reports whether something was typed that is not sent back.
func (f *skillForm) secretTyped() bool {
	o := &f.oauth
	return shell.Typed(f.headers) || shell.Typed(f.env) || o.clientSecret+o.privateKey+o.idpClientSecret+f.api.authSecret != ""
}

// words are the program and its arguments, a line each.
func (f *skillForm) words() []string { return textLines(f.command) }

// textLines splits a text, of which only white space is no line.
func textLines(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(strings.Trim(text, "\n"), "\n")
}

func (f *skillForm) paths() tool.Paths {
	return tool.Paths{Read: textLines(f.pathsRead), Write: textLines(f.pathsWrite)}
}

// spec is what the form declares of a new skill.
func (f *skillForm) spec(wrong *shell.Faults) agent.SkillSpec {
	spec := agent.SkillSpec{
		Name: f.name, Transport: tool.Transport(f.transport), URL: f.url, Command: f.words(), RunAs: f.runAs, Paths: new(f.paths()),
		Headers: given(wrong.Given("headers", f.headers)), Env: given(wrong.Given("env", f.env)),
		IdentityHeaders: &f.identity, Connection: f.connection,
	}
	f.fillSpec(&spec, wrong)
	if o := f.oauth.spec(); o != nil {
		spec.OAuth = o
	}
	return spec
}

// patch is what the form changes of a skill. What its program is and gets changes only where that is allowed.
func (f *skillForm) patch(wrong *shell.Faults, before *agent.Skill, commands bool) agent.SkillPatch {
	var patch agent.SkillPatch
	f.fillPatch(&patch, wrong)
	if before.Transport == tool.Stdio && !commands {
		return patch
	}
	patch.Headers, patch.Connection = wrong.Given("headers", f.headers), &f.connection
	patch.IdentityHeaders = &f.identity
	patch.OAuth = f.oauth.patch(before.OAuth)
	if before.Transport.IsAPI() {
		patch.APIPatch = f.api.patch(wrong, before)
		return patch
	}
	patch.URL = &f.url
	if commands {
		patch.Transport, patch.Command, patch.Env = new(tool.Transport(f.transport)), new(f.words()), wrong.Given("env", f.env)
		patch.RunAs, patch.Paths = &f.runAs, new(f.paths())
	}
	return patch
}

func given(patch map[string]*string) map[string]string {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if patch[name] != nil {
			values[name] = *patch[name]
		}
	}
	return values
}

// spec is nil when nothing is said.
func (o *oauthForm) spec() *agent.OAuthSpec {
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

func (o *oauthForm) patch(before *agent.OAuth) agent.OAuthPatch {
	spec := o.spec()
	switch {
	case spec != nil:
		return agent.OAuthPatch{OAuthSpec: *spec, Set: true}
	case before != nil:
		return agent.OAuthPatch{Remove: true}
	}
	return agent.OAuthPatch{}
}
