package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/query"
)

func newHoldsCmd(e *Env) *cobra.Command {
	return newGroup("holds", "Legal holds: records that nothing may delete", newHoldsListCmd(e), newHoldsSetCmd(e), newHoldsLiftCmd(e))
}

func newHoldsListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List legal holds, those in force first", Example: "  holdpoint holds list",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ListHolds(ctx)
			return printList(e, reply, err, []string{"ID", "AGENT", "FROM", "TO", "SET BY", "SET", "LIFTED", "REASON"}, func(h *client.LegalHold) []string {
				agent := "(all)"
				if h.Agent != nil {
					agent = *h.Agent
				}
				return []string{h.ID, agent, formatTime(h.From), formatTime(h.To), value(h.CreatedBy), formatTime(&h.CreatedAt), formatTime(h.LiftedAt), h.Reason}
			})
		}),
	}
}

func newHoldsSetCmd(e *Env) *cobra.Command {
	var agent, from, to, reason string
	cmd := &cobra.Command{
		Use: "set --reason TEXT [--agent NAME] [--from TIME] [--to TIME]", Short: "Keep records from being deleted",
		Long: `Keep records of an agent, of a range of time, or of both from being deleted by age or by the erasure of a
person. The hold is in force when the command returns.

--from and --to are RFC 3339 or a day in UTC; a day as --to includes that day.`,
		Example: `  holdpoint holds set --agent billing --from 2026-01-01 --to 2026-03-31 --reason "case 4711"`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			asked := client.LegalHoldRequest{Agent: given(agent), Reason: reason}
			for flag, bound := range map[string]struct {
				text string
				end  bool
				at   **time.Time
			}{"from": {from, false, &asked.From}, "to": {to, true, &asked.To}} {
				if bound.text == "" {
					continue
				}
				at, err := query.ParseTime(bound.text, bound.end, nil)
				if err != nil {
					return misusef("--%s %s: %w", flag, bound.text, err)
				}
				*bound.at = &at
			}
			reply, err := api.SetHold(ctx, asked)
			return printReply(e, reply, err, e.showHold)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&agent, "agent", "", "the agent's name, or its id if it was deleted")
	flags.StringVar(&from, "from", "", "records from this time on")
	flags.StringVar(&to, "to", "", "records before this time, or of this day")
	flags.StringVar(&reason, "reason", "", "why")
	return cmd
}

func newHoldsLiftCmd(e *Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "lift ID --reason TEXT", Short: "Lift a legal hold",
		Example: `  holdpoint holds lift 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --reason "case 4711 was settled"`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.LiftHold(ctx, args[0], client.LegalHoldEnd{Reason: reason})
			return printReply(e, reply, err, e.showHold)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (e *Env) showHold(h *client.LegalHold) error {
	return e.printFields("ID", h.ID, "Agent", value(h.Agent), "From", formatTime(h.From), "To", formatTime(h.To), "Reason", h.Reason,
		"Set by", value(h.CreatedBy), "Set", formatTime(&h.CreatedAt), "Lifted by", value(h.LiftedBy), "Lifted", formatTime(h.LiftedAt), "Lift reason", value(h.LiftReason))
}
