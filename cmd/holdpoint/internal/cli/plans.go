package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newPlansCmd(e *Env) *cobra.Command {
	return newGroup("plans", "Plans: lists of calls to come, which a reviewer approves at once",
		newPlansListCmd(e),
		&cobra.Command{
			Use: "show PLAN", Short: "Show a plan with all its calls",
			Example: "  holdpoint plans show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).GetPlan, e.showPlan),
		},
		newPlansApproveCmd(e), newPlansRejectCmd(e),
		&cobra.Command{
			Use: "revoke PLAN", Short: "Revoke an approved plan; calls that it let pass and that are not sent yet are denied",
			Example: "  holdpoint plans revoke 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).RevokePlan, e.showPlan),
		},
		&cobra.Command{
			Use: "cancel PLAN", Short: "Cancel a plan that you submitted as an agent; operators cancel any",
			Example: "  holdpoint plans cancel 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).CancelPlan, e.showPlan),
		})
}

func newPlansListCmd(e *Env) *cobra.Command {
	var query client.ListPlansQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List pending plans, newest first", Example: "  holdpoint plans list --all",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ListPlans(ctx, query)
			return printList(e, reply, err, []string{"ID", "STATUS", "AGENT", "FOR", "CALLS", "TITLE", "DECIDE BY"}, func(p *client.Plan) []string {
				return []string{p.ID, p.Status, p.Agent, shortPerson(p.Principal), strconv.Itoa(len(p.Calls)), clipCell(p.Title, 60), formatTime(&p.Deadline)}
			})
		}),
	}
	cmd.Flags().BoolVar(&query.All, "all", false, "also those that were decided or are over")
	return cmd
}

func (e *Env) showPlan(p *client.Plan) error {
	pairs := []string{
		"ID", p.ID, "Status", p.Status, "Title", p.Title, "Agent", p.Agent, "On behalf of", fullPerson(p.Principal), "Digest", p.Digest,
		"Submitted", formatTime(&p.CreatedAt), "Decide by", formatTime(&p.Deadline), "Decided by", fullPerson(p.DecidedBy), "Decided", formatTime(p.DecidedAt),
		"Note", value(p.Note), "Ends", formatTime(p.EndsAt), "Ended by", fullPerson(p.ClosedBy),
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		text := c.Tool + " " + string(c.Arguments) + " (" + planCallState(c) + ")"
		if c.Note != nil {
			text += ": " + *c.Note
		}
		pairs = append(pairs, fmt.Sprintf("Call %d", i+1), text)
		pairs = append(pairs, evidenceFields(c.Evidence)...)
	}
	return e.printFields(pairs...)
}

func planCallState(c *client.PlanCall) string {
	switch {
	case c.CallID != "":
		return "made: " + c.CallID
	case c.Struck:
		return "left out"
	case c.Effect == "waits":
		return "waits on its own: " + value(c.Reason)
	case c.Effect == "allowed":
		return "needs no approval"
	}
	return "passes once"
}

func newPlansApproveCmd(e *Env) *cobra.Command {
	var body client.ApprovePlanRequest
	var strike []int
	var note string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "approve PLAN", Short: "Approve a plan exactly as shown",
		Long: `Approve a plan by the digest that "plans show" shows. Each of its calls then passes once, in order.

--strike leaves calls out, by their numbers: they wait for people when they are made.`,
		Example: "  holdpoint plans approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --digest 5f0c… --strike 3 --time 2h",
	}
	flags := cmd.Flags()
	flags.StringVar(&body.Digest, "digest", "", "of the plan that you saw")
	flags.IntSliceVar(&strike, "strike", nil, "numbers of the calls that you leave out, from 1")
	flags.DurationVar(&lasts, "time", 0, "how long the plan lasts (default 8h)")
	flags.StringVar(&note, "note", "", "for the agent")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		if strings.TrimSpace(body.Digest) == "" {
			return misusef(`give --digest, as "holdpoint plans show" shows it`)
		}
		for _, number := range strike {
			body.Strike = append(body.Strike, int64(number-1))
		}
		if lasts != 0 {
			body.Time = new(lasts.String())
		}
		if note != "" {
			body.Note = &note
		}
		reply, err := api.ApprovePlan(ctx, args[0], body)
		return printReply(e, reply, err, e.showPlan)
	})
	return cmd
}

func newPlansRejectCmd(e *Env) *cobra.Command {
	var body client.RejectPlanRequest
	var reason string
	cmd := &cobra.Command{
		Use: "reject PLAN", Short: "Reject a plan; its calls wait for people when they are made",
		Example: `  holdpoint plans reject 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --digest 5f0c… --reason "too many payments"`,
	}
	cmd.Flags().StringVar(&body.Digest, "digest", "", "of the plan that you saw")
	cmd.Flags().StringVar(&reason, "reason", "", "for the agent")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		if strings.TrimSpace(body.Digest) == "" {
			return misusef(`give --digest, as "holdpoint plans show" shows it`)
		}
		if reason != "" {
			body.Reason = &reason
		}
		reply, err := api.RejectPlan(ctx, args[0], body)
		return printReply(e, reply, err, e.showPlan)
	})
	return cmd
}
