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
		Use: "create [--role reviewer|operator] [--agents …]", Short: "Make a token for yourself and print it, this once",
		Long: `Make a token for yourself and print it, this once. It has your own roles, or those of them that --role
names, and ends after the time that the server sets (90 days).

A reviewer decides approvals. An operator registers skills, agents and assignments, and makes
credentials. A person may be both. With --agents you may also make calls as those agents; such
calls are yours, and somebody else decides them.

Nobody makes a token for another person: invite them with "holdpoint invitation create". Only the
holder of the bootstrap token names a person, with --person: themselves, the first person. That
works until there is a second operator.`,
		Example: `  holdpoint token create
  holdpoint token create --role reviewer --agents billing,clerk
  holdpoint token create --person rita --role reviewer --role operator  # with the bootstrap token`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{}
			if person != "" {
				body["person"] = person
			}
			if id != "" {
				body["person_id"] = id
			}
			if len(roles) > 0 {
				body["roles"] = roles
			}
			if len(agents) > 0 {
				body["agents"] = agents
			}
			text, err := e.post(cmd.Context(), "tokens", body)
			if err != nil {
				return err
			}
			return e.printSecret(text, "The token. It is not shown again.")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&person, "person", "", "your own name, with the bootstrap token; for others see invitation create")
	flags.StringVar(&id, "person-id", "", "instead: your own id")
	_ = flags.MarkHidden("person-id") // it fails for a flag that is not defined
	bindRoles(cmd, &roles, "reviewer or operator, among your own; may be given twice (default all of yours)")
	flags.StringSliceVar(&agents, "agents", nil, `agents that the token may act as, among your own; "*" is every one`)
	return cmd
}

// bindRoles adds the flag that names roles of a person.
func bindRoles(cmd *cobra.Command, roles *[]string, words string) {
	cmd.Flags().StringSliceVar(roles, "role", nil, words)
	_ = cmd.RegisterFlagCompletionFunc("role", // it fails for a flag that is not defined
		cobra.FixedCompletions([]cobra.Completion{"reviewer", "operator"}, cobra.ShellCompDirectiveNoFileComp))
}

type tokenRow struct {
	ID        string     `json:"id"`
	Person    string     `json:"person"`
	Roles     []string   `json:"roles"`
	Agents    []string   `json:"agents"`
	Hint      string     `json:"hint"`
	Issuer    string     `json:"issuer"`
	Subject   string     `json:"subject"`
	Alike     bool       `json:"alike"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

func newTokenListCmd(e *Env) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens, without their secrets: all for operators, else your own", Example: "  holdpoint token list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "tokens", p.query())
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "PERSON", "SUBJECT", "ISSUER", "ROLES", "AGENTS", "TOKEN", "CREATED", "ENDS", "REVOKED"},
				func(t tokenRow) []string {
					person := t.Person
					if t.Alike {
						person += ", name looks like another's"
					}
					return []string{
						t.ID, person, t.Subject, t.Issuer, strings.Join(t.Roles, ", "), strings.Join(t.Agents, ", "), t.Hint + "…",
						moment(&t.CreatedAt), moment(&t.ExpiresAt), moment(t.RevokedAt),
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
