package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newTokenCmd(e *Env) *cobra.Command {
	return group("token", "Tokens of people", newTokenCreateCmd(e), newTokenListCmd(e), newTokenRevokeCmd(e))
}

func newTokenCreateCmd(e *Env) *cobra.Command {
	var person, id string
	var roles, agents []string
	cmd := &cobra.Command{
		Use: "create --person NAME --role reviewer|operator", Short: "Make a token for a person and print it, this once",
		Long: `Make a token for a person and print it, this once.

A reviewer decides approvals. An operator registers skills, agents and assignments, and makes
credentials. A person may be both. With --agents they may also make calls as those agents; such
calls are theirs, and somebody else decides them.`,
		Example: `  holdpoint token create --person rita --role reviewer
  holdpoint token create --person olga --role operator --role reviewer --agents billing,clerk`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (person == "") == (id == "") || len(roles) == 0 {
				return misuse("name a person with --person or --person-id, and at least one --role")
			}
			body := map[string]any{"person": person, "roles": roles}
			if id != "" {
				body = map[string]any{"person_id": id, "roles": roles}
			}
			if len(agents) > 0 {
				body["agents"] = agents
			}
			text, err := e.post(cmd.Context(), "tokens", body)
			if err != nil {
				return err
			}
			return e.printSecret(text, "The person's token. It is not shown again.")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&person, "person", "", "name of the person; one who is not known yet is made")
	flags.StringVar(&id, "person-id", "", "instead: id of a person who is known, as of an identity provider's")
	flags.StringSliceVar(&roles, "role", nil, "reviewer or operator; may be given twice")
	flags.StringSliceVar(&agents, "agents", nil, `agents that the person may act as; "*" is every one`)
	_ = cmd.RegisterFlagCompletionFunc("role", // it fails for a flag that is not defined
		cobra.FixedCompletions([]cobra.Completion{"reviewer", "operator"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type tokenRow struct {
	ID        string     `json:"id"`
	Person    string     `json:"person"`
	Roles     []string   `json:"roles"`
	Agents    []string   `json:"agents"`
	Hint      string     `json:"hint"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

func newTokenListCmd(e *Env) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens, without their secrets", Example: "  holdpoint token list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "tokens", p.query())
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "PERSON", "ROLES", "AGENTS", "TOKEN", "CREATED", "REVOKED"},
				func(t tokenRow) []string {
					return []string{
						t.ID, t.Person, strings.Join(t.Roles, ", "), strings.Join(t.Agents, ", "), t.Hint + "…",
						moment(&t.CreatedAt), moment(t.RevokedAt),
					}
				})
		},
	}
	p.bind(cmd)
	return cmd
}

func newTokenRevokeCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token, at once", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint token revoke 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "tokens/"+client.Segment(args[0]), "Revoked.")
		},
	}
}
