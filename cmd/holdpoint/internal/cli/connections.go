package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newConnectionsCmd(e *Env) *cobra.Command {
	return newGroup("connections", "Connections to protected skill servers",
		newConnectionsListCmd(e), newConnectionsConnectCmd(e),
		&cobra.Command{
			Use: "disconnect ID", Short: "Delete a connection's tokens, and revoke them where they were issued",
			Example: "  holdpoint connections disconnect 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.Disconnect(ctx, args[0])
				return printDone(e, reply, err, "Disconnected.")
			}),
		})
}

// explainConnection says why a connection is in its state, and who can change that.
func explainConnection(c *client.Connection) string {
	text := value(c.Reason)
	if c.State == "failing" {
		text = value(c.Error)
	}
	if who := value(c.WhoCanResolve); who != "" {
		if text != "" {
			text += "; "
		}
		text += "for " + who
	}
	return text
}

func newConnectionsListCmd(e *Env) *cobra.Command {
	var query client.ListConnectionsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List connections: an operator all, others their own",
		Example: "  holdpoint connections list --skill ledger",
		RunE: listPage(e, (*client.Client).ListConnections, &query, []string{"ID", "SKILL", "PERSON", "STATE", "UNTIL", "WAITING", "WHAT"}, func(c *client.Connection) []string {
			owner, until, waiting := "(shared)", "", ""
			if c.Person != nil {
				owner = c.Person.Name
			}
			if !c.Renewable {
				until = formatTime(c.ExpiresAt)
			}
			if c.WaitingCalls > 0 {
				waiting = fmt.Sprintf("%d calls", c.WaitingCalls)
			}
			return []string{c.ID, c.Skill, owner, c.State, until, waiting, explainConnection(c)}
		}),
	}
	cmd.Flags().StringVar(&query.Skill, "skill", "", "only connections to this skill")
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

func newConnectionsConnectCmd(e *Env) *cobra.Command {
	var issuer string
	cmd := &cobra.Command{
		Use: "connect SKILL", Short: "Begin to connect a skill, and print the address at which to continue",
		Long: `Begin to connect a skill, and print the address at which to continue. Only an operator makes a
connection that all share. Where each person has their own, it is made for the person of the token.

Open the address in a browser in which the same person is signed in to the dashboard: the answer of
the authorization server is accepted from no other person. The address works once, for 15 minutes.
Calls that wait for the connection continue by themselves.`,
		Example: "  holdpoint connections connect ledger",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ConnectSkill(ctx, args[0], client.ConnectRequest{Issuer: given(issuer)})
			return printReply(e, reply, err, func(begun *client.Authorization) error {
				e.notef("Open this in a browser in which you are signed in to the dashboard of %s as the person of this token, within 15 minutes:", e.url)
				return write(e.Stdout, escapeCell(begun.AuthorizationURL)+"\n")
			})
		}),
	}
	cmd.Flags().StringVar(&issuer, "issuer", "", "the authorization server, where the skill's server accepts tokens of several")
	return cmd
}
