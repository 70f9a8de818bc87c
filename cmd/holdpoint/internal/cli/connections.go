package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newConnectionsCmd(e *Env) *cobra.Command {
	return group("connections", "Connections to protected skill servers",
		newConnectionsListCmd(e), newConnectionsConnectCmd(e), newConnectionsDisconnectCmd(e))
}

type connectionRow struct {
	ID            string      `json:"id"`
	Skill         string      `json:"skill"`
	Person        *personName `json:"person"`
	State         string      `json:"state"`
	Reason        *string     `json:"reason"`
	WhoCanResolve *string     `json:"who_can_resolve"`
	ExpiresAt     *time.Time  `json:"expires_at"`
	Renewable     bool        `json:"renewable"`
	Error         *string     `json:"error"`
	WaitingCalls  int         `json:"waiting_calls"`
}

// owner is whose the connection is.
func (c *connectionRow) owner() string {
	if c.Person == nil {
		return "(shared)"
	}
	return c.Person.Name
}

// says is why the connection is in its state, and who can change that.
func (c *connectionRow) says() string {
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

// until is when somebody has to connect again.
func (c *connectionRow) until() string {
	if c.Renewable {
		return ""
	}
	return moment(c.ExpiresAt)
}

func newConnectionsListCmd(e *Env) *cobra.Command {
	var p page
	var skill string
	cmd := &cobra.Command{
		Use: "list", Short: "List connections: an operator all, others their own", Args: usage(cobra.NoArgs),
		Example: "  holdpoint connections list --skill ledger",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			if skill != "" {
				query.Set("skill", skill)
			}
			text, err := e.get(cmd.Context(), "connections", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "SKILL", "PERSON", "STATE", "UNTIL", "WAITING", "WHAT"}, func(c connectionRow) []string {
				waiting := ""
				if c.WaitingCalls > 0 {
					waiting = fmt.Sprintf("%d calls", c.WaitingCalls)
				}
				return []string{c.ID, c.Skill, c.owner(), c.State, c.until(), waiting, c.says()}
			})
		},
	}
	cmd.Flags().StringVar(&skill, "skill", "", "only connections to this skill")
	p.bind(cmd)
	return cmd
}

func newConnectionsConnectCmd(e *Env) *cobra.Command {
	var issuer string
	cmd := &cobra.Command{
		Use: "connect SKILL", Short: "Begin to connect a skill, and print the address at which to go on",
		Long: `Begin to connect a skill, and print the address at which to go on. A connection that all share is an
operator's to make; where each person has their own, it is made for the person of the token.

Open the address in a browser in which the same person is signed in to the dashboard: what comes
back from the authorization server is taken from nobody else. It is good for 15 minutes, once.
Calls that wait for the connection go on by themselves.`,
		Example: "  holdpoint connections connect ledger",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{}
			if issuer != "" {
				body["issuer"] = issuer
			}
			text, err := e.post(cmd.Context(), "skills/"+client.Segment(args[0])+"/connect", body)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			begun, err := decode[struct {
				URL string `json:"authorization_url"`
			}](text)
			if err != nil {
				return err
			}
			e.notef("Open this in a browser in which you are signed in to the dashboard of %s as the person of this token, within 15 minutes:", e.url)
			return write(e.Stdout, cell(begun.URL)+"\n")
		},
	}
	cmd.Flags().StringVar(&issuer, "issuer", "", "the authorization server, where the skill's server takes tokens of several")
	return cmd
}

func newConnectionsDisconnectCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "disconnect ID", Short: "Forget a connection's tokens, and have them revoked where they were issued",
		Example: "  holdpoint connections disconnect 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "connections/"+client.Segment(args[0])+"/disconnect", nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, "Disconnected.\n")
		},
	}
}
