package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// skillFields are the flags for the fields of a skill, as holdpoint.yaml names them.
func skillFields(e *Env, cmd *cobra.Command, removable bool) *fieldFlags {
	f := &fieldFlags{env: e, cmd: cmd}
	f.text("transport", "transport", "http, stdio, openapi or http-api")
	f.text("url", "url", "of its MCP endpoint (http)")
	f.words("command", "command", "a word of the command that runs on the server: the program, and again for each argument (stdio)")
	f.secrets("header", "headers", "a header that is sent with every request", removable)
	f.secrets("env", "env", "a variable that the program gets", removable)
	f.text("run-as", "run_as", `the account that the program runs as; "" is one of its own (stdio)`)
	f.words("path-read", "paths.read", "a folder or file that the program may read and run, and again for each (stdio)")
	f.words("path-write", "paths.write", "a folder or file that the program may write, and again for each (stdio)")
	f.bool("auto-approve", "auto_approve", "its calls need no approval")
	f.bool("trust-new-tools", "trust_new_tools", "tools that it begins to offer later are accepted as they come")
	f.text("approval-timeout", "approval_timeout", "time to decide about a call: 5m")
	f.text("approval-validity", "approval_validity", "how long an approved call may be sent after the decision: 10m; 0s, as long as the time to decide")
	f.text("call-timeout", "call_timeout", "time for its server to answer a call: 60s")
	f.text("resources", "resources", "which resources clients may read while it is not auto-approved: gated, those that a finished call returned, or pass")
	f.text("edits", "edits", "who approves a reviewer's edit of a call: alone, the editor; second, another reviewer; by_risk, another reviewer for tools of high risk")
	f.text("questions", "questions", "who decides about what its server asks during a gated call: reviewer, or client")
	f.bool("identity-headers", "identity_headers.enabled", "tell its server in headers which agent calls, in which call and on whose behalf")
	f.text("identity-header-agent", "identity_headers.agent", "the header of the agent's name; X-Holdpoint-Agent where none is given")
	f.text("identity-header-call", "identity_headers.call", "the header of the call's id; X-Holdpoint-Call where none is given")
	f.text("identity-header-principal", "identity_headers.principal", "the header of the person; X-Holdpoint-Principal where none is given")
	f.text("connection", "connection", "shared, or per_user: each person has their own")
	f.number("pending", "limits.pending", "how many calls for one person may wait for a decision or a connection; 0 is the default, 100")
	f.text("team", "team", `whose attention its calls want; "" is the agent's team`)
	f.text("escalate-to", "escalate_to", `the team that is asked at half of the deadline; "" is the agent's`)
	apiFields(f)
	f.text("oauth-grant", "oauth.grant", "authorization_code, client_credentials, enterprise_managed or workload_identity")
	f.text("oauth-issuer", "oauth.issuer", "the authorization server")
	f.text("oauth-client-id", "oauth.client_id", "of Holdpoint's client there")
	f.secret("oauth-client-secret", "oauth.client_secret", "the client's secret")
	f.text("oauth-auth-method", "oauth.auth_method", "client_secret_basic, client_secret_post, private_key_jwt or none")
	f.secret("oauth-private-key", "oauth.private_key", "the client's private key")
	f.bool("oauth-trust-origin", "oauth.trust_origin", "whether the server's metadata may name a resource above its own URL, such as its whole origin")
	f.list("oauth-scopes", "oauth.scopes", "scopes to ask for, with commas between")
	f.text("oauth-idp-issuer", "oauth.idp.issuer", "the enterprise's identity provider")
	f.text("oauth-idp-client-id", "oauth.idp.client_id", "of Holdpoint's client there")
	f.secret("oauth-idp-client-secret", "oauth.idp.client_secret", "that client's secret")
	return f
}

func newSkillCreateCmd(e *Env) *cobra.Command {
	var f *fieldFlags
	cmd := &cobra.Command{
		Use: "create SKILL --transport http --url URL | --transport stdio --command WORD… | --transport openapi --spec FILE|URL", Short: "Register a skill",
		Long: `Register a skill. Secrets are read from variables and files, sent once, kept encrypted and not shown
again. To declare several things at once, in a file, use "holdpoint apply"; "holdpoint skill import"
writes such a file from an OpenAPI document.`,
		Example: `  holdpoint skill create shop --transport openapi --spec shop.yaml --include tag=orders --auth-type bearer --auth-secret-env SHOP_TOKEN
  holdpoint skill create ledger --transport http --url https://ledger.example.com/mcp --header-env X-Team=TEAM_KEY
  holdpoint skill create files --transport stdio --command npx --command -y --command @modelcontextprotocol/server-filesystem@2026.8.31 --command /srv/shared --path-write /srv/shared`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.create(cmd.Context(), "skills", args[0], "Registered. Ask its server: holdpoint skill tools "+args[0]+" --refresh")
		},
	}
	f = skillFields(e, cmd, false)
	return cmd
}

func newSkillEditCmd(e *Env) *cobra.Command {
	var f *fieldFlags
	var noOAuth, noAuth bool
	cmd := &cobra.Command{
		Use: "edit SKILL", Short: "Change fields of a skill",
		Long: `Change the fields of a skill that flags name; the others stay. A change makes a new revision of the
skill: calls of it that were approved and not yet sent are denied. For what operators say of one of
its tools, see "holdpoint skill set".`,
		Example: `  holdpoint skill edit files --approval-timeout 10m --team ops
  holdpoint skill edit ledger --oauth-client-secret-file secret.txt --remove-header X-Team`,
		Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.edit(cmd.Context(), "skills/"+client.Segment(args[0]), "Saved.", "oauth", "identity_headers", "auth", "paths")
		},
	}
	f = skillFields(e, cmd, true)
	cmd.Flags().BoolVar(&noOAuth, "no-oauth", false, "forget what was said of how its server is authorized to")
	f.puts = append(f.puts, func(body map[string]any) error {
		if !noOAuth {
			return nil
		}
		if body["oauth"] != nil {
			return misuse("--no-oauth says that there are no other --oauth- flags")
		}
		body["oauth"] = nil
		return nil
	})
	cmd.Flags().BoolVar(&noAuth, "no-auth", false, "send requests to its API without what --auth-type said (openapi, http-api)")
	f.puts = append(f.puts, func(body map[string]any) error {
		if !noAuth {
			return nil
		}
		if body["auth"] != nil {
			return misuse("--no-auth says that there are no other --auth- flags")
		}
		body["auth"] = map[string]string{"type": ""}
		return nil
	})
	return cmd
}

// agentFields are the flags for the fields of an agent, as holdpoint.yaml names them.
func agentFields(e *Env, cmd *cobra.Command) *fieldFlags {
	f := &fieldFlags{env: e, cmd: cmd}
	f.text("instructions", "instructions", "what it is told about its work")
	file := cmd.Flags().String("instructions-file", "", "file that holds the instructions; - is standard input")
	cmd.MarkFlagsMutuallyExclusive("instructions", "instructions-file")
	f.field("instructions-file", "instructions", func() (any, error) { return e.fileText(*file) })
	f.text("wait-budget", "wait_budget", "how long a response is held open for a decision: 50s")
	f.text("error-style", "error_style", "how its endpoint tells errors: mcp, or codes for clients of older gateways")
	f.text("reply-timeout", "reply_timeout", "after it a tools/call is answered with error -32003; 0s is that of the error style: none for mcp, 60s for codes")
	f.number("calls-per-minute", "limits.calls_per_minute", "how many requests that reach skills' servers it may make a minute; 0 is no limit")
	f.number("concurrency", "limits.concurrency", "how many such requests of it are answered at one time; 0 is no limit")
	f.text("team", "team", `whose attention its calls want, where their skill names no team; "" is everybody's`)
	f.text("escalate-to", "escalate_to", `the team that is asked at half of the deadline; "" is none`)
	f.text("model-provider", "model.provider", "openai (whatever speaks its chat completions), anthropic, or scripted; \"\" together with --model-name \"\" is no model")
	f.text("model-name", "model.name", "of the model")
	f.text("model-base-url", "model.base_url", "the model's server; left out: the one that holdpoint's server was given, or the provider's own")
	f.secret("model-api-key", "model.api_key", "the key of the model's server; without it and --model-base-url, holdpoint's server uses its own, where it has one")
	f.number("model-max-tokens", "model.max_tokens", "bounds one answer; 0 is the provider's default")
	f.bool("model-images", "model.images", "whether the model can see images; left out: yes with openai and anthropic")
	f.decimal("model-input-price", "model.input_price", "of a million tokens of requests, in whatever currency you count; 0 is not counted")
	f.decimal("model-output-price", "model.output_price", "of a million tokens of answers; 0 is not counted")
	f.number("conversation-turns", "limits.conversation_turns", "how often one conversation that Holdpoint runs may ask the model; 0 is the default, 200")
	f.number("conversation-tokens", "limits.conversation_tokens", "tokens of one conversation, sent and answered; 0 is no limit")
	f.decimal("conversation-cost", "limits.conversation_cost", "what one conversation may cost, by the model's prices; 0 is no limit")
	f.text("conversation-time", "limits.conversation_time", "how long one conversation may last, people's thinking included: 72h; 0s is no limit")
	return f
}

func newAgentCreateCmd(e *Env) *cobra.Command {
	var f *fieldFlags
	cmd := &cobra.Command{
		Use: "create AGENT", Short: "Make an agent",
		Long: `Make an agent. It has no skills and no key yet: see "holdpoint agent assign" and "holdpoint agent key
create". To declare several things at once, in a file, use "holdpoint apply".`,
		Example: "  holdpoint agent create billing --team finance",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.create(cmd.Context(), "agents", args[0], "Created. Make a key for its client: holdpoint agent key create "+args[0])
		},
	}
	f = agentFields(e, cmd)
	return cmd
}

func newAgentEditCmd(e *Env) *cobra.Command {
	var f *fieldFlags
	cmd := &cobra.Command{
		Use: "edit AGENT", Short: "Change fields of an agent",
		Long: `Change the fields of an agent that flags name; the others stay. The key of its model's server stays
while provider and server stay the same.`,
		Example: `  holdpoint agent edit billing --wait-budget 2m
  holdpoint agent edit billing --instructions-file instructions.md`,
		Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.edit(cmd.Context(), "agents/"+client.Segment(args[0]), "Saved.", "model", "limits")
		},
	}
	f = agentFields(e, cmd)
	return cmd
}
