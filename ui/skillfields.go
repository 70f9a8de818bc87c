package ui

import (
	"slices"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
)

// fields are the parts of the form. A new skill has a name to choose; programs can be set only where
// that is allowed.
func (f *skillForm) fields(fresh, commands bool) []view.FormPart {
	if transport := tool.Transport(f.transport); transport.IsAPI() {
		parts := f.api.parts(transport, f.headers)
		return append(parts, f.approvalPart(), attentionPart(f.team, f.escalateTo, "the agent’s team"), f.identityPart(), f.oauthPart(), f.idpPart())
	}
	parts := []view.FormPart{f.serverPart(fresh, commands)}
	if commands {
		parts = append(parts, f.programPart())
	}
	parts = append(parts, f.approvalPart(), attentionPart(f.team, f.escalateTo, "the agent’s team"))
	if f.transport == string(tool.HTTP) || commands {
		parts = append(parts, f.identityPart(), f.oauthPart(), f.idpPart())
	}
	return parts
}

func (f *skillForm) serverPart(fresh, commands bool) view.FormPart {
	part := view.FormPart{Title: "Server"}
	if fresh {
		part.Fields = append(part.Fields, view.Field{
			Name: "name", Label: "Name", Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "files",
			Hint: "Agents see its tools as name__tool. a–z, 0–9, - and _; it cannot be changed later.",
		})
	}
	if commands {
		part.Fields = append(part.Fields, view.Field{
			Name: "transport", Label: "Transport", Kind: view.FieldSelect, Value: f.transport, Required: true,
			Choices: []view.Choice{{Value: string(tool.HTTP), Word: "HTTP"}, {Value: string(tool.Stdio), Word: "Program on this server (stdio)"}},
		})
	} else if f.transport == string(tool.Stdio) {
		part.Words = "Its program and variables run code on this server. They are changed on the command line, " +
			"with holdpoint apply, or here where the server was started with --stdio-from-dashboard."
		return part
	}
	part.Fields = append(part.Fields,
		view.Field{
			Name: "url", Label: "URL", Kind: view.FieldLine, Value: f.url, Required: !commands, Code: true,
			Example: "https://mcp.example.com/mcp", Hint: "Where its MCP endpoint is reached from this server, over streamable HTTP.",
		},
		view.Field{
			Name: "headers", Label: "Headers", Kind: view.FieldPairs, Pairs: presentPairs(f.headers),
			Hint: "Sent with every request, for example Authorization with Bearer and a token. Values are stored encrypted and never shown.",
		})
	return part
}

func (f *skillForm) programPart() view.FormPart {
	return view.FormPart{Title: "Program (stdio)", Folded: f.transport != string(tool.Stdio), Fields: []view.Field{
		{
			Name: "command", Label: "Command", Kind: view.FieldArea, Value: f.command, Code: true, Rows: 4,
			Example: "npx\n-y\n@modelcontextprotocol/server-filesystem@2026.8.31\n/srv/shared",
			Hint:    "The program and its arguments, one a line. It runs in a sandbox on this server, which has to allow the command (--stdio-allow).",
		},
		{
			Name: "env", Label: "Variables", Kind: view.FieldPairs, Pairs: presentPairs(f.env),
			Hint: "All that it gets besides PATH, LANG and a private HOME and TMPDIR. Values are stored encrypted and never shown.",
		},
		{
			Name: "paths.read", Label: "Folders to read", Kind: view.FieldArea, Value: f.pathsRead, Code: true, Rows: 2,
			Hint: "What it may read and run besides system folders and its home, one a line. The server has to allow them (--stdio-paths).",
		},
		{
			Name: "paths.write", Label: "Folders to write", Kind: view.FieldArea, Value: f.pathsWrite, Code: true, Rows: 2,
			Hint: "What it may also write, one a line.",
		},
		{
			Name: "run_as", Label: "Account", Kind: view.FieldLine, Value: f.runAs, Code: true,
			Hint: "Left empty: an account of its own where the server runs as root, else the server’s. The server has to allow it (--stdio-run-as).",
		},
	}}
}

func (f *skillForm) approvalPart() view.FormPart {
	return view.FormPart{Title: "Approval", Fields: []view.Field{
		{
			Name: "auto_approve", Label: "Calls need no approval", Kind: view.FieldCheck, On: f.autoApprove,
			Hint: "They are sent at once, unless the tool is of high risk, new, or changed. Left off, every call waits for a reviewer.",
		},
		{
			Name: "trust_new_tools", Label: "Trust new tools", Kind: view.FieldCheck, On: f.trustNewTools,
			Hint: "Tools that its server begins to offer later are accepted as they come. Changed ones never are.",
		},
		{
			Name: "approval_timeout", Label: "Time to decide", Kind: view.FieldLine, Value: f.approvalTimeout, Required: true, Code: true,
			Hint: "After it a call that nobody decided about expires: 90s, 5m, 1h30m.",
		},
		{
			Name: "approval_validity", Label: "Approval valid for", Kind: view.FieldLine, Value: f.approvalValidity, Code: true,
			Hint: "How long an approved call may be sent after the decision: 90s, 5m, 1h30m. Left empty: as long as the time to decide.",
		},
		{
			Name: "call_timeout", Label: "Time for a call", Kind: view.FieldLine, Value: f.callTimeout, Required: true, Code: true,
			Hint: "How long its server may take to answer.",
		},
		{
			Name: "resources", Label: "Resources", Kind: view.FieldSelect, Value: f.resources, Required: true,
			Choices: []view.Choice{
				{Value: agent.ResourcesGated, Word: "Only those that a finished call returned"}, {Value: agent.ResourcesPass, Word: "All of them"},
			},
			Hint: "Which of its resources clients may read. Where calls need no approval, they may read all.",
		},
		{
			Name: "edits", Label: "Approval of edits", Kind: view.FieldSelect, Value: f.edits, Required: true,
			Choices: []view.Choice{
				{Value: agent.EditsByRisk, Word: "Second reviewer for tools of high risk"},
				{Value: agent.EditsSecond, Word: "Second reviewer"},
				{Value: agent.EditsAlone, Word: "Editor alone"},
			},
			Hint: "Who approves a call whose arguments a reviewer edited.",
		},
		{
			Name: "questions", Label: "Questions", Kind: view.FieldSelect, Value: f.questions, Required: true,
			Choices: []view.Choice{
				{Value: agent.QuestionsReviewer, Word: "A reviewer approves each answer"}, {Value: agent.QuestionsClient, Word: "The client answers alone"},
			},
			Hint: "What its server asks the client during a call that was approved. Questions and answers are recorded in both cases.",
		},
	}}
}

func (f *skillForm) identityPart() view.FormPart {
	return view.FormPart{
		Title: "Who calls", Folded: !f.identity.Enabled, Words: "Headers that tell its server who a call is made for. Clients cannot set them.",
		Fields: []view.Field{
			{
				Name: "identity_headers.enabled", Label: "Tell its server", Kind: view.FieldCheck, On: f.identity.Enabled,
				Hint: "The agent’s name, the call’s id, and the person on whose behalf it is made: their issuer and subject.",
			},
			{Name: "identity_headers.agent", Label: "Header of the agent", Kind: view.FieldLine, Value: f.identity.Agent, Code: true, Example: agent.HeaderAgent},
			{Name: "identity_headers.call", Label: "Header of the call", Kind: view.FieldLine, Value: f.identity.Call, Code: true, Example: agent.HeaderCall},
			{Name: "identity_headers.principal", Label: "Header of the person", Kind: view.FieldLine, Value: f.identity.Principal, Code: true, Example: agent.HeaderPrincipal},
		},
	}
}

// attentionPart asks for teams; otherwise says whose they are when none is named.
func attentionPart(team, escalateTo, otherwise string) view.FormPart {
	return view.FormPart{Title: "Attention", Fields: []view.Field{
		{
			Name: "team", Label: "Team", Kind: view.FieldLine, Value: team,
			Hint: "Whose reviewers see its calls first. Left out: " + otherwise + ".",
		},
		{
			Name: "escalate_to", Label: "Escalated to", Kind: view.FieldLine, Value: escalateTo,
			Hint: "The team that is asked too when half of the time to decide is over.",
		},
	}}
}

func (f *skillForm) oauthPart() view.FormPart {
	o := &f.oauth
	grants := []view.Choice{
		{Value: "", Word: "As its server asks for it"},
		{Value: tool.AuthorizationCode, Word: "A person allows it in the browser (authorization code)"},
		{Value: tool.ClientCredentials, Word: "By itself (client credentials)"},
		{Value: tool.EnterpriseManaged, Word: "Through the enterprise’s identity provider"},
		{Value: tool.WorkloadIdentity, Word: "As this server’s workload"},
	}
	methods := []view.Choice{
		{Value: "", Word: "As the authorization server supports"},
		{Value: tool.AuthBasic, Word: tool.AuthBasic},
		{Value: tool.AuthPost, Word: tool.AuthPost},
		{Value: tool.AuthPrivateKey, Word: tool.AuthPrivateKey},
		{Value: tool.AuthNone, Word: tool.AuthNone},
	}
	return view.FormPart{
		Title: "Authorization (OAuth)", Folded: true,
		Words: "Only where its server asks for tokens. What is left out is discovered from the server.",
		Fields: []view.Field{
			{Name: "connection", Label: "Connections", Kind: view.FieldSelect, Value: f.connection, Required: true, Choices: []view.Choice{
				{Value: agent.ConnectionShared, Word: "One, shared by all"}, {Value: agent.ConnectionPerUser, Word: "Each person has their own"},
			}},
			{Name: "oauth.grant", Label: "Grant", Kind: view.FieldSelect, Value: o.grant, Choices: grants},
			{Name: "oauth.issuer", Label: "Authorization server", Kind: view.FieldLine, Value: o.issuer, Code: true, Example: "https://auth.example.com"},
			{Name: "oauth.client_id", Label: "Client id", Kind: view.FieldLine, Value: o.clientID, Code: true, Hint: "Left out, Holdpoint registers itself."},
			o.secret("client_secret", "Client secret", view.FieldSecret),
			{Name: "oauth.auth_method", Label: "How the client says who it is", Kind: view.FieldSelect, Value: o.authMethod, Choices: methods},
			o.secret("private_key", "Private key", view.FieldSealed),
			{Name: "oauth.scopes", Label: "Scopes", Kind: view.FieldLine, Value: o.scopes, Code: true, Hint: "With spaces between. Left out: those that the server asks for."},
			{
				Name: "oauth.trust_origin", Label: "Trust the whole origin", Kind: view.FieldCheck, On: o.trustOrigin,
				Hint: "The server may name a resource above its own URL. Its tokens are then good for all of it.",
			},
		},
	}
}

func (f *skillForm) idpPart() view.FormPart {
	o := &f.oauth
	return view.FormPart{Title: "Identity provider of the enterprise", Folded: true, Fields: []view.Field{
		{Name: "oauth.idp.issuer", Label: "Issuer", Kind: view.FieldLine, Value: o.idpIssuer, Code: true},
		{Name: "oauth.idp.client_id", Label: "Client id", Kind: view.FieldLine, Value: o.idpClientID, Code: true},
		o.secret("idp.client_secret", "Client secret", view.FieldSecret),
	}}
}

// secret asks for a secret by its path below oauth.
func (o *oauthForm) secret(path, label string, kind view.FieldKind) view.Field {
	f := view.Field{Name: "oauth." + path, Label: label, Kind: kind}
	if slices.Contains(o.kept, path) {
		f.Hint = "Set, and kept while the client stays the same, unless another is given."
	}
	return f
}
