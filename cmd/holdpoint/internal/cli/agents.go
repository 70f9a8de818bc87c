package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newAgentCmd(e *Env) *cobra.Command {
	return newGroup("agent", "Agents, their skills and keys",
		newAgentListCmd(e), newAgentToolsCmd(e), newAgentCreateCmd(e), newAgentEditCmd(e), newAgentAssignCmd(e), newCallbackCmd(e),
		&cobra.Command{
			Use: "show AGENT", Short: "Show an agent, without its secrets",
			Example: "  holdpoint agent show billing",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.GetAgent(ctx, args[0])
				return printPretty(e, reply, err)
			}),
		},
		&cobra.Command{
			Use: "delete AGENT", Short: "Delete an agent; its keys stop working",
			Long: `Delete an agent. Its keys stop working immediately, its conversations end, and its parked calls are denied
when they are approved. The records of its calls stay.`,
			Example: "  holdpoint agent delete billing",
			RunE:    e.deleteOne((*client.Client).DeleteAgent, "Deleted."),
		},
		&cobra.Command{
			Use: "unassign AGENT SKILL", Short: "Unassign a skill from an agent",
			Example: "  holdpoint agent unassign billing files",
			RunE:    e.deletePart((*client.Client).Unassign, "Unassigned."),
		},
		newGroup("key", "Keys of agents",
			&cobra.Command{
				Use: "create AGENT", Short: "Create a key for an agent and print it once",
				Example: "  holdpoint agent key create billing",
				RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
					reply, err := api.CreateKey(ctx, args[0])
					return printSecret(e, reply, err, "The agent's key. It is not shown again.", func(k *client.NewKey) string { return k.Key })
				}),
			},
			&cobra.Command{
				Use: "list AGENT", Short: "List an agent's keys, without their secrets",
				Example: "  holdpoint agent key list billing",
				RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
					reply, err := api.ListKeys(ctx, args[0])
					return printList(e, reply, err, []string{"ID", "KEY", "CREATED", "CREATED BY", "ENDS", "REVOKED"}, func(k *client.Key) []string {
						return []string{k.ID, k.Hint + "…", formatTime(&k.CreatedAt), shortPerson(k.CreatedBy), formatTime(k.ExpiresAt), formatTime(k.RevokedAt)}
					})
				}),
			},
			&cobra.Command{
				Use: "revoke AGENT ID", Short: "Revoke a key of an agent immediately",
				Example: "  holdpoint agent key revoke billing 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
				RunE:    e.deletePart((*client.Client).RevokeKey, "Revoked."),
			}))
}

func newAgentListCmd(e *Env) *cobra.Command {
	var query client.ListAgentsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List agents", Example: "  holdpoint agent list",
		RunE: listPage(e, (*client.Client).ListAgents, &query, []string{"NAME", "SKILLS", "TEAM", "WAIT", "CREATED"}, func(a *client.Agent) []string {
			var skills []string
			for _, s := range a.Skills {
				if s.Tools != nil {
					s.Skill += fmt.Sprintf(" (%d tools)", len(s.Tools))
				}
				skills = append(skills, s.Skill)
			}
			return []string{a.Name, strings.Join(skills, ", "), formatTeams(a.Team, a.EscalateTo, a.Escalation), a.WaitBudget, formatTime(&a.CreatedAt)}
		}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

func newAgentToolsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "tools AGENT", Short: "List the tools that a new conversation of an agent would be offered",
		Long: `List the tools that a new conversation of an agent would be offered, as far as the server knows its
skills: no skill server is asked. Use the token of an operator or a reviewer. Skills whose tools are
missing are noted on the standard error. "holdpoint tools" lists what the agent itself sees.`,
		Example: "  holdpoint agent tools billing",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.PreviewAgent(ctx, args[0])
			found, err := client.Value(reply, err)
			if err != nil {
				return err
			}
			e.noteProblems(found.Problems)
			if e.json {
				return e.printJSON(reply)
			}
			rows := make([][]string, len(found.Tools))
			for i, t := range found.Tools {
				rows[i] = []string{t.Name, t.Skill, t.Tool, shortPin(t.Pin)}
			}
			return e.printTable([]string{"NAME", "SKILL", "TOOL", "PIN"}, rows)
		}),
	}
}

// agentFields adds the flags for the fields of an agent, named as in holdpoint.yaml.
func agentFields(e *Env, cmd *cobra.Command) *fieldFlags {
	f := &fieldFlags{env: e, cmd: cmd}
	f.addText("instructions", "instructions", "what it is told about its work")
	file := cmd.Flags().String("instructions-file", "", "file with the instructions; - is standard input")
	cmd.MarkFlagsMutuallyExclusive("instructions", "instructions-file")
	f.addField("instructions-file", "instructions", func() (any, error) { return e.readSecretFile(*file) })
	addAgentSettings(f)
	f.addEscalation("none")
	f.addNumber("calls-per-minute", "limits.calls_per_minute", "requests a minute that reach skill servers; 0 means no limit")
	f.addNumber("concurrency", "limits.concurrency", "such requests at the same time; 0 means no limit")
	f.addNumber("pending", "limits.pending", "limit of calls for one person that wait for a decision or a connection; 0 is the default, 100")
	f.addText("model-provider", "model.provider", "openai (any server with its chat completions), anthropic, or scripted; \"\" together with --model-name \"\" removes the model")
	f.addText("model-name", "model.name", "name of the model")
	f.addText("model-base-url", "model.base_url", "URL of the model's server; by default the one that holdpoint's server is configured with, or the provider's own")
	f.addSecret("model-api-key", "model.api_key", "the key for the model's server; without it and --model-base-url, holdpoint's server uses its own key, if it has one")
	f.addNumber("model-max-tokens", "model.max_tokens", "limit of one answer; 0 is the provider's default")
	f.addBool("model-images", "model.images", "whether the model can see images; by default yes with openai and anthropic")
	f.addDecimal("model-input-price", "model.input_price", "price of a million tokens of requests, in any currency; 0 is not counted")
	f.addDecimal("model-output-price", "model.output_price", "price of a million tokens of answers; 0 is not counted")
	f.addNumber("conversation-turns", "limits.conversation_turns", "how often one conversation that Holdpoint runs may ask the model; 0 is the default, 200")
	f.addNumber("conversation-tokens", "limits.conversation_tokens", "tokens of one conversation, sent and answered; 0 means no limit")
	f.addDecimal("conversation-cost", "limits.conversation_cost", "what one conversation may cost, by the model's prices; 0 means no limit")
	f.addText("conversation-time", "limits.conversation_time", "how long one conversation may last, including the time that people take: 72h; 0s means no limit")
	return f
}

func newAgentCreateCmd(e *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create AGENT", Short: "Create an agent", ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Create an agent. It has no skills and no key yet: see "holdpoint agent assign" and "holdpoint agent key
create". To declare several things at once, in a file, use "holdpoint apply".`,
		Example: "  holdpoint agent create billing --team finance",
	}
	f := agentFields(e, cmd)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		return f.create(ctx, api, "/api/v1/agents", args[0], "Created. Create a key for its client: holdpoint agent key create "+args[0])
	})
	return cmd
}

func newAgentEditCmd(e *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "edit AGENT", Short: "Change fields of an agent",
		Long: `Change the fields of an agent that flags name; the others stay. The key for its model's server stays
while provider and server stay the same.`,
		Example: `  holdpoint agent edit billing --wait-budget 2m
  holdpoint agent edit billing --instructions-file instructions.md`,
	}
	f := agentFields(e, cmd)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		return f.edit(ctx, api, "/api/v1/agents/"+client.Segment(args[0]), "model", "limits")
	})
	return cmd
}

func newAgentAssignCmd(e *Env) *cobra.Command {
	var tools []string
	var prefix string
	cmd := &cobra.Command{
		Use: "assign AGENT SKILL", Short: "Let an agent use a skill, or change how",
		Long: `Let an agent use a skill: all its tools, or only those in --tools. This replaces the agent's earlier
assignment of this skill.`,
		Example: `  holdpoint agent assign billing files
  holdpoint agent assign billing everything --tools echo,get-sum --prefix ""`,
	}
	cmd.Flags().StringSliceVar(&tools, "tools", nil, "only these tools, separated by commas (default all)")
	cmd.Flags().StringVar(&prefix, "prefix", "", `prefix of its tools' names (default the skill's name); "" is none`)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		body := client.AssignRequest{Agent: args[0], Skill: args[1]}
		if cmd.Flags().Changed("tools") {
			body.Tools = tools
		}
		if cmd.Flags().Changed("prefix") {
			body.Prefix = &prefix
		}
		reply, err := api.Assign(ctx, body)
		return printDone(e, reply, err, args[0]+" may use "+args[1]+".")
	})
	return cmd
}
