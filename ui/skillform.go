package ui

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// skillForm is what a form says of a skill. Its secrets are never sent back.
type skillForm struct {
	name, transport, url, command string
	runAs, pathsRead, pathsWrite  string
	headers, env                  []pair
	autoApprove, trustNewTools    bool
	approvalTimeout, callTimeout  string
	approvalValidity              string // empty: as approvalTimeout
	resources, edits, questions   string
	identity                      agent.IdentityHeaders
	team, escalateTo              string
	connection                    string
	oauth                         oauthForm
	api                           apiForm
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
	return skillForm{
		transport: string(tool.HTTP), connection: agent.ConnectionShared,
		approvalTimeout: durationWords(agent.DefaultApprovalTimeout), callTimeout: durationWords(agent.DefaultCallTimeout),
		resources: agent.ResourcesGated, edits: agent.EditsByRisk, questions: agent.QuestionsReviewer, api: emptyAPIForm(),
	}
}

// formOfSkill is how a skill is at present.
func formOfSkill(s *agent.Skill) skillForm {
	f := skillForm{
		name: s.Name, transport: string(s.Transport), url: s.URL, command: strings.Join(s.Command, "\n"),
		runAs: s.RunAs, pathsRead: strings.Join(s.Paths.Read, "\n"), pathsWrite: strings.Join(s.Paths.Write, "\n"),
		headers: keptPairs(s.HeaderNames), env: keptPairs(s.EnvNames), autoApprove: s.AutoApprove, trustNewTools: s.TrustNewTools,
		approvalTimeout: durationWords(s.ApprovalTimeout), approvalValidity: optionalDurationWords(s.ApprovalValidity), callTimeout: durationWords(s.CallTimeout),
		resources: s.Resources, edits: s.Edits, questions: s.Questions, identity: s.IdentityHeaders,
		team: s.Team, escalateTo: s.EscalateTo, connection: agent.ConnectionShared, api: formOfAPI(s),
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

func keptPairs(names []string) []pair {
	var list []pair
	for _, name := range names {
		list = append(list, pair{name: name, kept: true})
	}
	return list
}

// readSkillForm reads what was sent about a skill that was as before says.
func readSkillForm(r *http.Request, before skillForm) skillForm {
	f := skillForm{
		name: before.name, transport: before.transport, url: line(r, "url"), command: text(r, "command"),
		runAs: line(r, "run_as"), pathsRead: text(r, "paths.read"), pathsWrite: text(r, "paths.write"),
		headers: readPairs(r, "headers", namesOf(before.headers)), env: readPairs(r, "env", namesOf(before.env)),
		autoApprove: ticked(r, "auto_approve"), trustNewTools: ticked(r, "trust_new_tools"),
		approvalTimeout: line(r, "approval_timeout"), approvalValidity: line(r, "approval_validity"), callTimeout: line(r, "call_timeout"),
		resources: line(r, "resources"), edits: line(r, "edits"), questions: cmp.Or(line(r, "questions"), before.questions),
		identity: agent.IdentityHeaders{
			Enabled: ticked(r, "identity_headers.enabled"), Agent: line(r, "identity_headers.agent"),
			Call: line(r, "identity_headers.call"), Principal: line(r, "identity_headers.principal"),
		},
		team: line(r, "team"), escalateTo: line(r, "escalate_to"), connection: line(r, "connection"),
		oauth: oauthForm{
			grant: line(r, "oauth.grant"), issuer: line(r, "oauth.issuer"), clientID: line(r, "oauth.client_id"),
			authMethod: line(r, "oauth.auth_method"), scopes: line(r, "oauth.scopes"), trustOrigin: ticked(r, "oauth.trust_origin"),
			idpIssuer: line(r, "oauth.idp.issuer"), idpClientID: line(r, "oauth.idp.client_id"),
			clientSecret: r.PostFormValue("oauth.client_secret"), privateKey: text(r, "oauth.private_key"),
			idpClientSecret: r.PostFormValue("oauth.idp.client_secret"), kept: before.oauth.kept,
		},
		api: readAPIForm(r, before.api),
	}
	if before.name == "" {
		f.name = line(r, "name")
	}
	if chosen := line(r, "transport"); chosen != "" {
		f.transport = chosen
	}
	return f
}

func namesOf(pairs []pair) []string {
	var names []string
	for _, p := range pairs {
		names = append(names, p.name)
	}
	return names
}

// secretTyped reports whether something was typed that is not sent back.
func (f *skillForm) secretTyped() bool {
	o := &f.oauth
	return typed(f.headers) || typed(f.env) || o.clientSecret+o.privateKey+o.idpClientSecret+f.api.authSecret != ""
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
func (f *skillForm) spec(wrong *faults) agent.SkillSpec {
	spec := agent.SkillSpec{
		Name: f.name, Transport: tool.Transport(f.transport), URL: f.url, Command: f.words(), RunAs: f.runAs, Paths: new(f.paths()),
		Headers: present(wrong.given("headers", f.headers)), Env: present(wrong.given("env", f.env)),
		AutoApprove: f.autoApprove, TrustNewTools: f.trustNewTools,
		ApprovalTimeout:  wrong.duration("approval_timeout", f.approvalTimeout),
		ApprovalValidity: wrong.optionalDuration("approval_validity", f.approvalValidity),
		CallTimeout:      wrong.duration("call_timeout", f.callTimeout),
		Resources:        f.resources,
		Edits:            f.edits,
		Questions:        f.questions,
		IdentityHeaders:  &f.identity,
		Connection:       f.connection, Team: f.team, EscalateTo: f.escalateTo,
	}
	if o := f.oauth.spec(); o != nil {
		spec.OAuth = o
	}
	return spec
}

// patch is what the form changes of a skill. What its program is and gets changes only where that is allowed.
func (f *skillForm) patch(wrong *faults, before *agent.Skill, commands bool) agent.SkillPatch {
	patch := agent.SkillPatch{
		AutoApprove: &f.autoApprove, TrustNewTools: &f.trustNewTools, Team: &f.team, EscalateTo: &f.escalateTo,
		ApprovalTimeout:  wrong.duration("approval_timeout", f.approvalTimeout),
		ApprovalValidity: wrong.optionalDuration("approval_validity", f.approvalValidity),
		CallTimeout:      wrong.duration("call_timeout", f.callTimeout),
		Resources:        &f.resources,
		Edits:            &f.edits,
		Questions:        &f.questions,
	}
	if before.Transport == tool.Stdio && !commands {
		return patch
	}
	patch.Headers, patch.Connection = wrong.given("headers", f.headers), &f.connection
	patch.IdentityHeaders = &f.identity
	patch.OAuth = f.oauth.patch(before.OAuth)
	if before.Transport.IsAPI() {
		patch.APIPatch = f.api.patch(wrong, before)
		return patch
	}
	patch.URL = &f.url
	if commands {
		patch.Transport, patch.Command, patch.Env = new(tool.Transport(f.transport)), new(f.words()), wrong.given("env", f.env)
		patch.RunAs, patch.Paths = &f.runAs, new(f.paths())
	}
	return patch
}

func present(patch map[string]*string) map[string]string {
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
