package skills

import (
	"slices"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// listParts returns the parts of the form. Only a new skill has a field for its name, and only commands allows fields for programs.
func (f *skillForm) listParts(fresh, commands bool) []view.FormPart {
	if transport := tool.Transport(f.transport); transport.IsAPI() {
		parts := f.api.listParts(transport, f.headers)
		return append(parts, f.approvalPart(), shell.AttentionPart(f.team, f.escalateTo, f.escalation, text.FormSkillTeamHint()), f.identityPart(), f.oauthPart(), f.idpPart())
	}
	parts := []view.FormPart{f.serverPart(fresh, commands)}
	if commands && !f.isGate(fresh) {
		parts = append(parts, f.programPart())
	}
	if fresh || f.isGate(fresh) {
		parts = append(parts, f.gatePart())
	}
	parts = append(parts, f.approvalPart(), shell.AttentionPart(f.team, f.escalateTo, f.escalation, text.FormSkillTeamHint()))
	if f.isGate(fresh) {
		return parts
	}
	if f.transport == string(tool.HTTP) || commands || fresh {
		parts = append(parts, f.identityPart(), f.oauthPart(), f.idpPart())
	}
	return parts
}

func (f *skillForm) serverPart(fresh, commands bool) view.FormPart {
	part := view.FormPart{Title: text.SkillFormServer()}
	if fresh {
		part.Fields = append(part.Fields, view.Field{
			Name: "name", Label: text.SkillFormName(), Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "files",
			Hint: text.SkillFormNameHint(),
		})
	}
	if f.isGate(fresh) {
		part.Words = text.SkillFormGateNote()
		return part
	}
	if commands || fresh {
		part.Fields = append(part.Fields, f.transportField(fresh, commands))
	} else if f.transport == string(tool.Stdio) {
		part.Words = text.SkillFormStdioNote()
		return part
	}
	part.Fields = append(part.Fields,
		view.Field{
			Name: "url", Label: text.SkillFormURL(), Kind: view.FieldLine, Value: f.url, Required: !commands && !fresh, Code: true,
			Example: "https://mcp.example.com/mcp", Hint: text.SkillFormURLHint(),
		},
		view.Field{
			Name: "headers", Label: text.SkillFormHeaders(), Kind: view.FieldPairs, Pairs: shell.PresentPairs(f.headers),
			Hint: text.SkillFormServerHeadersHint(),
		})
	return part
}

// isGate reports whether the form is of a skill without a server. Its transport does not change.
func (f *skillForm) isGate(fresh bool) bool { return !fresh && f.transport == string(tool.Gate) }

func (f *skillForm) transportField(fresh, commands bool) view.Field {
	choices := []view.Choice{{Value: string(tool.HTTP), Word: text.SkillFormTransportHTTP()}}
	if commands {
		choices = append(choices, view.Choice{Value: string(tool.Stdio), Word: text.SkillFormTransportStdio()})
	}
	if fresh {
		choices = append(choices, view.Choice{Value: string(tool.Gate), Word: text.SkillFormTransportGate()})
	}
	return view.Field{Name: "transport", Label: text.SkillFormTransport(), Kind: view.FieldSelect, Value: f.transport, Required: true, Choices: choices}
}

// gatePart has the settings of skills whose calls their callers execute.
func (f *skillForm) gatePart() view.FormPart {
	choices := []view.Choice{{Word: text.SkillFormHostNone()}}
	for _, name := range tool.Hosts() {
		choices = append(choices, view.Choice{Value: name, Word: text.Literal(name)})
	}
	return view.FormPart{Title: text.SkillFormGate(), Folded: f.transport != string(tool.Gate), Fields: []view.Field{
		{Name: "host", Label: text.SkillFormHost(), Kind: view.FieldSelect, Value: f.host, Choices: choices, Hint: text.SkillFormHostHint()},
		{
			Name: "release_time", Label: text.SkillFormReleaseTime(), Kind: view.FieldLine, Value: f.releaseTime, Code: true,
			Hint: text.SkillFormReleaseTimeHint(),
		},
	}}
}

func (f *skillForm) programPart() view.FormPart {
	return view.FormPart{Title: text.SkillFormProgram(), Folded: f.transport != string(tool.Stdio), Fields: []view.Field{
		{
			Name: "command", Label: text.SkillFormCommand(), Kind: view.FieldArea, Value: f.command, Code: true, Rows: 4,
			Example: "npx\n-y\n@modelcontextprotocol/server-filesystem@2026.8.31\n/srv/shared",
			Hint:    text.SkillFormCommandHint(),
		},
		{
			Name: "env", Label: text.SkillFormVariables(), Kind: view.FieldPairs, Pairs: shell.PresentPairs(f.env),
			Hint: text.SkillFormVariablesHint(),
		},
		{
			Name: "paths.read", Label: text.SkillFormReadPaths(), Kind: view.FieldArea, Value: f.pathsRead, Code: true, Rows: 2,
			Hint: text.SkillFormReadPathsHint(),
		},
		{
			Name: "paths.write", Label: text.SkillFormWritePaths(), Kind: view.FieldArea, Value: f.pathsWrite, Code: true, Rows: 2,
			Hint: text.SkillFormWritePathsHint(),
		},
		{
			Name: "run_as", Label: text.SkillFormAccount(), Kind: view.FieldLine, Value: f.runAs, Code: true,
			Hint: text.SkillFormAccountHint(),
		},
	}}
}

func (f *skillForm) approvalPart() view.FormPart {
	policy := f.policyChoice
	policy.Name, policy.Value = "policy", f.policy
	return view.FormPart{Title: text.SkillFormApproval(), Fields: []view.Field{
		{
			Name: "auto_approve", Label: text.SkillFormAutoApprove(), Kind: view.FieldCheck, On: f.autoApprove,
			Hint: text.SkillFormAutoApproveHint(),
		},
		{
			Name: "trust_new_tools", Label: text.SkillFormTrustNewTools(), Kind: view.FieldCheck, On: f.trustNewTools,
			Hint: text.SkillFormTrustNewToolsHint(),
		},
		policy,
		{
			Name: "approval_timeout", Label: text.SkillFormApprovalTimeout(), Kind: view.FieldLine, Value: f.approvalTimeout, Required: true, Code: true,
			Hint: text.SkillFormApprovalTimeoutHint(),
		},
		{
			Name: "approval_validity", Label: text.SkillFormApprovalValidity(), Kind: view.FieldLine, Value: f.approvalValidity, Code: true,
			Hint: text.SkillFormApprovalValidityHint(),
		},
		{
			Name: "call_timeout", Label: text.SkillFormCallTimeout(), Kind: view.FieldLine, Value: f.callTimeout, Required: true, Code: true,
			Hint: text.SkillFormCallTimeoutHint(),
		},
		{
			Name: "resources", Label: text.SkillFormResources(), Kind: view.FieldSelect, Value: f.resources, Required: true,
			Choices: []view.Choice{
				{Value: agent.ResourcesGated, Word: text.SkillFormResourcesGated()}, {Value: agent.ResourcesPass, Word: text.SkillFormResourcesPass()},
			},
			Hint: text.SkillFormResourcesHint(),
		},
		{
			Name: "edits", Label: text.SkillFormEdits(), Kind: view.FieldSelect, Value: f.edits, Required: true,
			Choices: []view.Choice{
				{Value: agent.EditsByRisk, Word: text.SkillFormEditsByRisk()},
				{Value: agent.EditsSecond, Word: text.SkillFormEditsSecond()},
				{Value: agent.EditsAlone, Word: text.SkillFormEditsAlone()},
			},
			Hint: text.SkillFormEditsHint(),
		},
		{
			Name: "questions", Label: text.SkillFormQuestions(), Kind: view.FieldSelect, Value: f.questions, Required: true,
			Choices: []view.Choice{
				{Value: agent.QuestionsReviewer, Word: text.SkillFormQuestionsReviewer()}, {Value: agent.QuestionsClient, Word: text.SkillFormQuestionsClient()},
			},
			Hint: text.SkillFormQuestionsHint(),
		},
	}}
}

func (f *skillForm) identityPart() view.FormPart {
	return view.FormPart{
		Title: text.SkillFormIdentity(), Folded: !f.identity.Enabled, Words: text.SkillFormIdentityNote(),
		Fields: []view.Field{
			{
				Name: "identity_headers.enabled", Label: text.SkillFormIdentityEnabled(), Kind: view.FieldCheck, On: f.identity.Enabled,
				Hint: text.SkillFormIdentityEnabledHint(),
			},
			{Name: "identity_headers.agent", Label: text.SkillFormIdentityAgent(), Kind: view.FieldLine, Value: f.identity.Agent, Code: true, Example: agent.HeaderAgent},
			{Name: "identity_headers.call", Label: text.SkillFormIdentityCall(), Kind: view.FieldLine, Value: f.identity.Call, Code: true, Example: agent.HeaderCall},
			{Name: "identity_headers.principal", Label: text.SkillFormIdentityPerson(), Kind: view.FieldLine, Value: f.identity.Principal, Code: true, Example: agent.HeaderPrincipal},
		},
	}
}

func (f *skillForm) oauthPart() view.FormPart {
	o := &f.oauth
	grants := []view.Choice{
		{Value: "", Word: text.SkillFormGrantDefault()},
		{Value: tool.AuthorizationCode, Word: text.SkillFormGrantCode()},
		{Value: tool.ClientCredentials, Word: text.SkillFormGrantClient()},
		{Value: tool.EnterpriseManaged, Word: text.SkillFormGrantEnterprise()},
		{Value: tool.WorkloadIdentity, Word: text.SkillFormGrantWorkload()},
	}
	methods := []view.Choice{
		{Value: "", Word: text.SkillFormMethodDefault()},
		{Value: tool.AuthBasic, Word: text.Literal(tool.AuthBasic)},
		{Value: tool.AuthPost, Word: text.Literal(tool.AuthPost)},
		{Value: tool.AuthPrivateKey, Word: text.Literal(tool.AuthPrivateKey)},
		{Value: tool.AuthNone, Word: text.Literal(tool.AuthNone)},
	}
	return view.FormPart{
		Title: text.SkillFormOAuth(), Folded: true,
		Words: text.SkillFormOAuthNote(),
		Fields: []view.Field{
			{Name: "connection", Label: text.SkillFormConnections(), Kind: view.FieldSelect, Value: f.connection, Required: true, Choices: []view.Choice{
				{Value: agent.ConnectionShared, Word: text.SkillFormConnectionShared()}, {Value: agent.ConnectionPerUser, Word: text.SkillFormConnectionPerUser()},
			}},
			{Name: "oauth.grant", Label: text.SkillFormGrant(), Kind: view.FieldSelect, Value: o.grant, Choices: grants},
			{Name: "oauth.issuer", Label: text.SkillFormIssuer(), Kind: view.FieldLine, Value: o.issuer, Code: true, Example: "https://auth.example.com"},
			{Name: "oauth.client_id", Label: text.SkillFormClientID(), Kind: view.FieldLine, Value: o.clientID, Code: true, Hint: text.SkillFormClientIDHint()},
			{Name: "oauth.auth_method", Label: text.SkillFormAuthMethod(), Kind: view.FieldSelect, Value: o.authMethod, Choices: methods},
			o.secretField("client_secret", text.SkillFormClientSecret(), view.FieldSecret, tool.AuthBasic+" "+tool.AuthPost),
			o.secretField("private_key", text.SkillFormPrivateKey(), view.FieldSealed, tool.AuthPrivateKey),
			{Name: "oauth.scopes", Label: text.SkillFormScopes(), Kind: view.FieldLine, Value: o.scopes, Code: true, Hint: text.SkillFormScopesHint()},
			{
				Name: "oauth.trust_origin", Label: text.SkillFormTrustOrigin(), Kind: view.FieldCheck, On: o.trustOrigin,
				Hint: text.SkillFormTrustOriginHint(),
			},
		},
	}
}

func (f *skillForm) idpPart() view.FormPart {
	o := &f.oauth
	return view.FormPart{Title: text.SkillFormIdp(), Folded: true, For: tool.EnterpriseManaged, Fields: []view.Field{
		{Name: "oauth.idp.issuer", Label: text.SkillFormIdpIssuer(), Kind: view.FieldLine, Value: o.idpIssuer, Code: true},
		{Name: "oauth.idp.client_id", Label: text.SkillFormClientID(), Kind: view.FieldLine, Value: o.idpClientID, Code: true},
		o.secretField("idp.client_secret", text.SkillFormClientSecret(), view.FieldSecret, ""),
	}}
}

// secretField returns the field of a secret by its path below oauth. Pages show it for some methods.
func (o *oauthForm) secretField(path string, label text.Message, kind view.FieldKind, methods string) view.Field {
	f := view.Field{Name: "oauth." + path, Label: label, Kind: kind, For: methods}
	if slices.Contains(o.kept, path) {
		f.Hint = text.SkillFormClientSecretKept()
	}
	return f
}
