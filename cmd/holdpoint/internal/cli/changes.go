package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newChangesCmd(e *Env) *cobra.Command {
	return newGroup("changes", "Changes that wait for a second operator (--dual-control)",
		newChangesListCmd(e),
		&cobra.Command{
			Use: "show ID", Short: "Show a change with all its differences",
			Example: "  holdpoint changes show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).GetChange, e.showChange),
		},
		newChangeDecisionCmd(e, "approve", "Make a change that another operator proposed", (*client.Client).ApproveChange),
		newChangeDecisionCmd(e, "reject", "Reject a change, or withdraw your own", (*client.Client).RejectChange))
}

func newChangesListCmd(e *Env) *cobra.Command {
	var query client.ListChangesQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List changes, newest first", Example: "  holdpoint changes list --pending",
		RunE: listPage(e, (*client.Client).ListChanges, &query, []string{"ID", "KIND", "NAME", "STATUS", "PROPOSED BY", "PROPOSED", "ENDS", "FIELDS"}, func(c *client.ControlledChange) []string {
			fields := make([]string, len(c.Fields))
			for i, f := range c.Fields {
				fields[i] = f.Field
			}
			return []string{c.ID, c.Kind, c.Name, c.Status, shortPerson(c.ProposedBy), formatTime(&c.ProposedAt), formatTime(&c.ExpiresAt), strings.Join(fields, ", ")}
		}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	cmd.Flags().BoolVar(&query.Pending, "pending", false, "only those that wait")
	return cmd
}

func newChangeDecisionCmd(e *Env, verb, short string,
	decide func(*client.Client, context.Context, string, client.ChangeDecision) (client.Reply[client.ControlledChange], error),
) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Example: "  holdpoint changes " + verb + ` 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --note "as agreed"`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := decide(api, ctx, args[0], client.ChangeDecision{Note: given(note)})
			return printReply(e, reply, err, e.showChange)
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "note for the other operators")
	return cmd
}

func (e *Env) showChange(c *client.ControlledChange) error {
	err := e.printFields("ID", c.ID, "Kind", c.Kind, "Name", c.Name, "Action", c.Action, "Status", c.Status,
		"Proposed by", fullPerson(c.ProposedBy), "Proposed", formatTime(&c.ProposedAt), "Ends", formatTime(&c.ExpiresAt),
		"Decided by", fullPerson(c.DecidedBy), "Decided", formatTime(c.DecidedAt), "Note", value(c.Note))
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("\nDifferences\n")
	for _, f := range c.Fields {
		writeDifference(&b, f.Field, f.Old, f.New)
	}
	return write(e.Stdout, b.String())
}
