package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newSkillCmd(e *Env) *cobra.Command {
	return newGroup("skill", "Skills and their tools",
		newSkillListCmd(e), newSkillCreateCmd(e), newSkillEditCmd(e), newSkillProbeCmd(e), newSkillHealthCmd(e), newSkillToolsCmd(e), newSkillSetCmd(e),
		newSkillTryCmd(e), newSkillImportCmd(e),
		&cobra.Command{
			Use: "show SKILL", Short: "Show a skill, without its secrets",
			Example: "  holdpoint skill show files",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.GetSkill(ctx, args[0])
				return printPretty(e, reply, err)
			}),
		},
		&cobra.Command{
			Use: "delete SKILL", Short: "Delete a skill; no agent has it any more",
			Long: `Delete a skill. Every agent loses it, its connections are deleted, and its parked calls are denied when
they are approved. The records of its calls stay. The agents that had the skill are printed.`,
			Example: "  holdpoint skill delete files",
			RunE:    e.withClient(e.deleteSkill),
		},
		&cobra.Command{
			Use: "document SKILL", Short: "Print the OpenAPI document that a skill was given",
			Long:    `Print the OpenAPI document that a skill was given, byte for byte. A skill whose document is at a URL (spec) has none.`,
			Example: "  holdpoint skill document shop > shop.yaml",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				return api.GetDocument(ctx, args[0], e.Stdout)
			}),
		},
		newSkillSettleCmd(e, &cobra.Command{
			Use: "accept SKILL TOOL", Short: "Accept the current definition of a tool",
			Long: `Accept the current definition of a tool, so that its calls need no approval for being changed or
new. Without --pin the definition is fetched, shown, and accepted as it was shown.`,
			Example: "  holdpoint skill accept files write_file --pin 5f0c…",
		}, "Accepted ", (*client.Client).AcceptTool),
		newSkillSettleCmd(e, &cobra.Command{
			Use: "refuse SKILL TOOL", Short: "Refuse the current definition of a tool",
			Long: `Refuse the current definition of a tool: while its server offers that, no call of it is sent and no
agent is offered it. Accepting it reverts this. Without --pin the definition is fetched, shown,
and refused as it was shown.`,
			Example: "  holdpoint skill refuse files write_file --pin 5f0c…",
		}, "Refused ", (*client.Client).RefuseTool))
}

// deleteSkill deletes a skill, and names the agents that had it.
func (e *Env) deleteSkill(ctx context.Context, api *client.Client, args []string) error {
	var had []string
	query := client.ListAgentsQuery{}
	for {
		page, err := client.Value(api.ListAgents(ctx, query))
		if err != nil {
			return err
		}
		for _, a := range page.Items {
			if slices.ContainsFunc(a.Skills, func(s client.AgentSkill) bool { return s.Skill == args[0] }) {
				had = append(had, escapeCell(a.Name))
			}
		}
		if page.NextCursor == nil {
			break
		}
		query.Cursor = *page.NextCursor
	}
	done := "Deleted."
	if len(had) > 0 {
		done += " No longer a skill of: " + strings.Join(had, ", ")
	}
	return e.printDeleted(api.DeleteSkill(ctx, args[0]), done)
}

func newSkillListCmd(e *Env) *cobra.Command {
	var query client.ListSkillsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List skills and their health", Example: "  holdpoint skill list",
		RunE: listPage(e, (*client.Client).ListSkills, &query, []string{"NAME", "CALLS", "HEALTH", "LISTED", "TEAM", "OAUTH", "SERVER"}, func(s *client.Skill) []string {
			calls := "parked"
			if s.AutoApprove {
				calls = "auto-approved"
			}
			found := value(s.Health)
			health := found.Status
			if found.Kind != nil {
				health = clipCell(fmt.Sprintf("%s: %s: %s", health, *found.Kind, value(found.Error)), 60)
			}
			server := cmp.Or(value(s.URL), value(s.BaseURL), value(s.Spec), strings.Join(s.Command, " "))
			return []string{
				s.Name, calls, health, formatTime(found.ListedAt), formatTeams(s.Team, s.EscalateTo, s.Escalation), formatAuthorization(s), clipCell(server, 60),
			}
		}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

// formatAuthorization says how Holdpoint is authorized to a skill's server, if that is set.
func formatAuthorization(s *client.Skill) string {
	var parts []string
	if s.OAuth != nil {
		parts = append(parts, s.OAuth.Grant)
	}
	if s.Connection == "per_user" {
		parts = append(parts, "per user")
	}
	return strings.Join(parts, ", ")
}

func newSkillCreateCmd(e *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create SKILL --transport http --url URL | --transport stdio --command WORD… | --transport openapi --spec FILE|URL", Short: "Register a skill",
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Register a skill. Secrets are read from variables and files, sent once, stored encrypted and not shown
again. To declare several things at once, in a file, use "holdpoint apply"; "holdpoint skill import"
writes such a file from an OpenAPI document.`,
		Example: `  holdpoint skill create shop --transport openapi --spec shop.yaml --include tag=orders --auth-type bearer --auth-secret-env SHOP_TOKEN
  holdpoint skill create ledger --transport http --url https://ledger.example.com/mcp --header-env X-Team=TEAM_KEY
  holdpoint skill create files --transport stdio --command npx --command -y --command @modelcontextprotocol/server-filesystem@2026.8.31 --command /srv/shared --path-write /srv/shared`,
	}
	f := skillFields(e, cmd, false)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		return f.create(ctx, api, "/api/v1/skills", args[0], "Registered. Ask its server: holdpoint skill tools "+args[0]+" --refresh")
	})
	return cmd
}

func newSkillEditCmd(e *Env) *cobra.Command {
	var noOAuth, noAuth bool
	cmd := &cobra.Command{
		Use: "edit SKILL", Short: "Change fields of a skill",
		Long: `Change the fields of a skill that flags name; the others stay. A change makes a new revision of the
skill: calls that were approved and not yet sent are denied. For the settings of one of its tools,
see "holdpoint skill set".`,
		Example: `  holdpoint skill edit files --approval-timeout 10m --team ops
  holdpoint skill edit ledger --oauth-client-secret-file secret.txt --remove-header X-Team`,
	}
	f := skillFields(e, cmd, true)
	addRemoval := func(flag, usage, field string, removed any, set *bool) {
		cmd.Flags().BoolVar(set, flag, false, usage)
		f.puts = append(f.puts, func(body map[string]any) error {
			if !*set {
				return nil
			}
			if body[field] != nil {
				return misusef("--%s excludes the other --%s- flags", flag, field)
			}
			body[field] = removed
			return nil
		})
	}
	addRemoval("no-oauth", "remove the settings of how its server is authorized to", "oauth", nil, &noOAuth)
	addRemoval("no-auth", "remove the authentication of requests to its API (openapi, http-api)", "auth", map[string]string{"type": ""}, &noAuth)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		return f.edit(ctx, api, "/api/v1/skills/"+client.Segment(args[0]), "oauth", "identity_headers", "auth", "paths")
	})
	return cmd
}

func newSkillSetCmd(e *Env) *cobra.Command {
	var risk, program, policy string
	var idempotent, enabled, grants bool
	var notSecret []string
	cmd := &cobra.Command{
		Use: "set SKILL TOOL", Short: "Change the settings of one tool",
		Long: `Change the settings of one tool of a skill; settings without a flag stay:

--risk        high parks every call of it, also in an auto-approved skill
--idempotent  a call that may not have arrived is sent again
--enabled     whether agents may use it
--select      the part of a JSON answer that is the result (HTTP APIs). It changes the tool's
              definition, which then has to be accepted.
--not-secret  arguments that the dashboard shows and compares though the tool's schema declares
              them as secrets: JSON pointers, in which * is any name or index. "" is none.
--grants      people may allow calls of it by grants, although it is of high risk, destructive or has a policy
--policy      the approval policy of its calls, instead of the skill's. "" is the skill's.

For the skill itself, see "holdpoint skill edit".`,
		Example: `  holdpoint skill set files move_file --risk high
  holdpoint skill set files read_file --idempotent --risk none
  holdpoint skill set files delete_file --enabled=false
  holdpoint skill set shop listOrders --select '[.items[] | {id, total}]'
  holdpoint skill set ledger post_entry --not-secret /token,/rows/*/token`,
	}
	flags := cmd.Flags()
	flags.StringVar(&risk, "risk", "", "high, or none")
	flags.BoolVar(&idempotent, "idempotent", false, "whether a call may be sent again")
	flags.BoolVar(&enabled, "enabled", true, "whether agents may use it")
	flags.StringVar(&program, "select", "", `a jq program that makes the result of a JSON answer; "" is all of it`)
	flags.BoolVar(&grants, "grants", false, "whether grants may allow calls although the tool is of high risk, destructive or has a policy")
	flags.StringVar(&policy, "policy", "", `approval policy of its calls; "" is the skill's`)
	flags.StringSliceVar(&notSecret, "not-secret", nil, `paths of arguments that are not secret; "" is none`)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		var patch client.ToolPatch
		if flags.Changed("risk") {
			patch.Risk = &risk
			if risk == "none" {
				patch.Risk = new("")
			}
		}
		if flags.Changed("idempotent") {
			patch.Idempotent = &idempotent
		}
		if flags.Changed("enabled") {
			patch.Enabled = &enabled
		}
		if flags.Changed("select") {
			patch.Select = &program
		}
		if flags.Changed("not-secret") {
			patch.NotSecret = notSecret
		}
		if flags.Changed("grants") {
			patch.Grants = &grants
		}
		if flags.Changed("policy") {
			patch.Policy = &policy
		}
		if !slices.ContainsFunc([]string{"risk", "idempotent", "enabled", "select", "not-secret", "policy", "grants"}, flags.Changed) {
			return misusef("give --risk, --idempotent, --enabled, --select, --not-secret, --policy or --grants")
		}
		reply, err := api.UpdateTool(ctx, args[0], args[1], patch)
		type settings struct {
			Tools map[string]json.RawMessage `json:"tools"`
		}
		return printReply(e, client.Reply[settings](reply), err, func(changed *settings) error {
			return write(e.Stdout, escapeCell("Settings of "+args[1]+": "+cmp.Or(string(changed.Tools[args[1]]), "none"))+"\n")
		})
	})
	return cmd
}

func newSkillHealthCmd(e *Env) *cobra.Command {
	var query client.SkillHealthQuery
	cmd := &cobra.Command{
		Use: "health SKILL", Short: "Show how a skill's server answered over time",
		Example: "  holdpoint skill health files --range 30d",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.SkillHealth(ctx, args[0], query)
			return printReply(e, reply, err, func(found *client.HealthHistory) error {
				rows := make([][]string, len(found.Spans))
				for i, s := range found.Spans {
					rows[i] = []string{formatTime(&s.From), count(s.Succeeded), count(s.Failed)}
				}
				if err := e.printTable([]string{"FROM", "ANSWERED", "FAILED"}, rows); err != nil {
					return err
				}
				for _, t := range found.Troubles {
					line := fmt.Sprintf("%s, %s, %d times, last %s", t.Kind, t.Error, t.Times, formatTime(&t.Last))
					if err := write(e.Stdout, escapeCell(strings.TrimSpace(line))+"\n"); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&query.Range, "range", "24h", "24h or 30d")
	return cmd
}

func newSkillToolsCmd(e *Env) *cobra.Command {
	var query client.ListSkillToolsQuery
	cmd := &cobra.Command{
		Use: "tools SKILL", Short: "List the tools that a skill's server offers, with their pins",
		Long: `List the tools that a skill's server offers, with their pins.

Calls of a tool that is "new" or "changed" are parked, even those of an auto-approved skill, until
an operator accepts its definition. Those of a "refused" one are denied.`,
		Example: "  holdpoint skill tools files --refresh",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ListSkillTools(ctx, args[0], query)
			if list, err := client.Value(reply, err); err == nil && len(list.Items) == 0 {
				e.notef("No tools are listed. See why: holdpoint skill probe %s", args[0])
			}
			return printList(e, reply, err, []string{"NAME", "STATE", "PIN", "DESCRIPTION"}, func(t *client.SkillTool) []string {
				var definition struct {
					Description string `json:"description"`
				}
				_ = json.Unmarshal(t.Definition, &definition) // a server may offer a strange one
				return []string{t.Name, t.State, shortPin(t.Pin), firstLine(definition.Description)}
			})
		}),
	}
	cmd.Flags().BoolVar(&query.Refresh, "refresh", false, "ask the skill's server again, over your own connection")
	return cmd
}

// shortPin returns the first characters of a pin.
func shortPin(pin string) string { return pin[:min(len(pin), 12)] }

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clipCell(line, 80)
}

// newSkillSettleCmd completes a command that decides about the current definition of a tool.
func newSkillSettleCmd(e *Env, cmd *cobra.Command, done string,
	settle func(c *client.Client, ctx context.Context, skill, tool string, body client.AcceptRequest) (client.Reply[client.SkillTool], error),
) *cobra.Command {
	var pin string
	cmd.Flags().StringVar(&pin, "pin", "", "pin of the definition that you looked at")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		if pin == "" {
			var err error
			if pin, err = e.showDefinition(ctx, api, args[0], args[1]); err != nil {
				return err
			}
		}
		reply, err := settle(api, ctx, args[0], args[1], client.AcceptRequest{Pin: pin})
		return printDone(e, reply, err, done+pin+".")
	})
	return cmd
}

// showDefinition shows the current definition of a tool and returns its pin.
func (e *Env) showDefinition(ctx context.Context, api *client.Client, skill, name string) (string, error) {
	found, err := client.Value(api.ListSkillTools(ctx, skill, client.ListSkillToolsQuery{}))
	if err != nil {
		return "", err
	}
	for i := range found.Items {
		t := &found.Items[i]
		if t.Name != name {
			continue
		}
		if orEmpty(t.AcceptedDefinition) != "" {
			e.notef("Accepted before:\n%s\nNow:", prettyJSON(t.AcceptedDefinition))
		}
		e.notef("%s", prettyJSON(t.Definition))
		return t.Pin, nil
	}
	return "", fmt.Errorf("skill %s offers no tool %q", skill, name)
}

func newSkillProbeCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "probe SKILL", Short: "Connect to a skill's server afresh, step by step",
		Example: "  holdpoint skill probe files",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ProbeSkill(ctx, args[0])
			found, err := client.Value(reply, err)
			if err != nil {
				return err
			}
			err = printReply(e, reply, nil, func(*client.Probe) error {
				var rows [][]string
				for _, s := range found.Steps {
					state, detail := "ok", s.Detail
					if s.Error != nil {
						state, detail = "fail", *s.Error
					}
					rows = append(rows, []string{state, s.Name, s.Took, detail})
				}
				return e.printTable([]string{"STATE", "STEP", "TOOK", "DETAIL"}, rows)
			})
			if err == nil && !found.OK {
				err = &ExitError{Code: ExitFailure}
			}
			return err
		}),
	}
}

func newSkillTryCmd(e *Env) *cobra.Command {
	var arguments, file string
	cmd := &cobra.Command{
		Use: "try SKILL TOOL", Short: "Make one reading call of a skill over an HTTP API, to see its answer",
		Long: `Make one call of a skill over an HTTP API, to see its answer: the request, with masked secrets, goes to the
standard error, the result to the standard output. Only tools that read (GET, HEAD) can be tried. The
trial is recorded in the audit; it is no agent's call. The exit code is 1 if the API did not answer,
or answered with an error.`,
		Example: `  holdpoint skill try shop getOrder --args '{"id":"A-3391"}'`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			text, err := e.readArguments(arguments, file)
			if err != nil {
				return err
			}
			reply, err := api.TrySkill(ctx, args[0], client.Trial{Tool: args[1], Arguments: text})
			found, err := client.Value(reply, err)
			if err != nil {
				return err
			}
			err = printReply(e, reply, nil, e.showTrial)
			if err == nil && (found.IsError || found.Failure != nil) {
				err = &ExitError{Code: ExitFailure}
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&arguments, "args", "{}", "the arguments: a JSON object")
	cmd.Flags().StringVar(&file, "args-file", "", `file with the arguments; "-" is the standard input`)
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	return cmd
}

func (e *Env) showTrial(found *client.Tried) error {
	request := value(found.Request)
	e.notef("%s %s", request.Method, request.URL)
	for _, h := range request.Headers {
		e.notef("%s: %s", h.Name, headerValue(h))
	}
	status := ""
	if found.Status != nil {
		status = "HTTP " + count(*found.Status)
	}
	if found.Failure != nil {
		e.notef("%s", strings.TrimSpace(status+" "+*found.Failure))
		return nil
	}
	e.notef("%s", status)
	var result struct {
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			MimeType string `json:"mimeType"`
		} `json:"content"`
	}
	if err := json.Unmarshal(found.Result, &result); err != nil {
		return fmt.Errorf("understand the result: %w", err)
	}
	for _, block := range result.Content {
		line := block.Text
		if block.Type != "text" {
			line = strings.TrimSpace("(" + block.Type + " " + block.MimeType + "; see --json)")
		}
		if err := write(e.Stdout, Visible(line)+"\n"); err != nil {
			return err
		}
	}
	return nil
}
