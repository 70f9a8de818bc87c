package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// newClaimCmds returns the commands by which reviewers share their work.
func newClaimCmds(e *Env) []*cobra.Command {
	return []*cobra.Command{
		{
			Use: "claim ID", Short: "Tell other reviewers that you work on a call",
			Long: `Tell other reviewers that you work on a call. They see it in the queue, and may still decide the call. It
replaces the claim of another reviewer.`,
			Example: "  holdpoint approvals claim 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).ClaimApproval, e.showClaim),
		},
		{
			Use: "release ID", Short: "Remove the claim or the assignment of a call",
			Example: "  holdpoint approvals release 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).ReleaseApproval, e.showClaim),
		},
		{
			Use: "assign ID PERSON", Short: "Ask another reviewer to decide a call",
			Long: `Ask another reviewer to decide a call, by the id that "holdpoint people list" shows. The call is in the
list "Mine" of that person's queue. Other reviewers may still decide it.`,
			Example: "  holdpoint approvals assign 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 0198c1de-1111-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.AssignApproval(ctx, args[0], client.AssignApprovalRequest{Person: args[1]})
				return printReply(e, reply, err, e.showClaim)
			}),
		},
		{
			Use: "comment ID TEXT", Short: "Comment on a call, for other reviewers",
			Long:    `Comment on a call, for other reviewers. Agents never see comments. "approvals show" shows them.`,
			Example: `  holdpoint approvals comment 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 "Rita asks the owner"`,
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.CommentOnApproval(ctx, args[0], client.CommentRequest{Text: args[1]})
				return printReply(e, reply, err, func(a *client.Approval) error {
					return write(e.Stdout, "The call has "+count(a.CommentCount)+" comments.\n")
				})
			}),
		},
	}
}

func (e *Env) showClaim(a *client.Approval) error {
	if a.Claim == nil {
		return write(e.Stdout, "Nobody works on the call.\n")
	}
	return write(e.Stdout, escapeCell(formatClaim(a.Claim))+" works on the call.\n")
}

// formatClaim names the person of a claim. For nil it returns "".
func formatClaim(c *client.Claim) string {
	if c == nil {
		return ""
	}
	words := shortPerson(fallbackPerson(c.ByPerson, &c.By))
	if c.AssignedBy != nil {
		words += " (assigned by " + *c.AssignedBy + ")"
	}
	return words
}

// commentFields shows the comments of an approval.
func commentFields(list []client.Comment) []string {
	var pairs []string
	for i := range list {
		c := &list[i]
		pairs = append(pairs, "Comment "+count(c.Number), shortPerson(fallbackPerson(c.ByPerson, &c.By))+", at "+formatTime(&c.At)+": "+c.Text)
	}
	return pairs
}
