package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newTokenCmd(e *Env) *cobra.Command {
	return newGroup("token", "Tokens of people", newTokenCreateCmd(e), newTokenListCmd(e), &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token immediately",
		Example: "  holdpoint token revoke 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE:    e.deleteOne((*client.Client).RevokeToken, "Revoked."),
	})
}

func newTokenCreateCmd(e *Env) *cobra.Command {
	var person, id string
	var body client.TokenRequest
	cmd := &cobra.Command{
		Use: "create [--role reviewer|operator] [--agents …]", Short: "Create a token for yourself and print it once",
		Long: `Create a token for yourself and print it once. It has your own roles, or those of them that --role
names, and expires after the time that the server sets (90 days).

A reviewer decides approvals. An operator registers skills, agents and assignments, and makes
credentials. A person may be both. With --agents you may also make calls as those agents; such
calls are yours, and another person decides about them.

You cannot make a token for another person: invite them with "holdpoint invitation create". Only the
holder of the bootstrap token names a person, with --person: themselves, the first person. That
works until there is a second operator.`,
		Example: `  holdpoint token create
  holdpoint token create --role reviewer --agents billing,clerk
  holdpoint token create --person rita --role reviewer --role operator  # with the bootstrap token`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			body.Person, body.PersonID = given(person), given(id)
			body.Roles, body.Agents = givenList(body.Roles), givenList(body.Agents)
			reply, err := api.CreateToken(ctx, body)
			return printSecret(e, reply, err, "The token. It is not shown again.", func(t *client.NewToken) string { return t.Key })
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&person, "person", "", "your own name, with the bootstrap token; for others see invitation create")
	flags.StringVar(&id, "person-id", "", "instead: your own id")
	_ = flags.MarkHidden("person-id") // it fails for a flag that is not defined
	bindRoles(cmd, &body.Roles, "reviewer or operator, among your own; may be given twice (default all of yours)")
	flags.StringSliceVar(&body.Agents, "agents", nil, `agents that the token may act as, among your own; "*" is every one`)
	return cmd
}

// bindRoles adds the flag that names roles of a person.
func bindRoles(cmd *cobra.Command, roles *[]string, words string) {
	cmd.Flags().StringSliceVar(roles, "role", nil, words)
	_ = cmd.RegisterFlagCompletionFunc("role", // it fails for a flag that is not defined
		cobra.FixedCompletions([]cobra.Completion{"reviewer", "operator"}, cobra.ShellCompDirectiveNoFileComp))
}

func newTokenListCmd(e *Env) *cobra.Command {
	var query client.ListTokensQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens, without their secrets: all for operators, else your own", Example: "  holdpoint token list",
		RunE: listPage(e, (*client.Client).ListTokens, &query,
			[]string{"ID", "PERSON", "SUBJECT", "ISSUER", "ROLES", "AGENTS", "TOKEN", "CREATED", "ENDS", "REVOKED"}, func(t *client.Token) []string {
				person := t.Person
				if t.Alike {
					person += ", name looks like another's"
				}
				return []string{
					t.ID, person, t.Subject, t.Issuer, strings.Join(t.Roles, ", "), strings.Join(t.Agents, ", "), t.Hint + "…",
					formatTime(&t.CreatedAt), formatTime(&t.ExpiresAt), formatTime(t.RevokedAt),
				}
			}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}
