package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newAuditCmd(e *Env) *cobra.Command {
	return newGroup("audit", "The record of events", newAuditListCmd(e), newAuditExportCmd(e))
}

// formatActor names the actor of an event.
func formatActor(a client.AuditActor) string {
	switch {
	case a.Name != nil && a.Subject != nil:
		return shortPerson(&client.PersonName{Name: *a.Name, Issuer: value(a.Issuer), Subject: *a.Subject, Alike: a.Alike})
	case a.Name != nil:
		return *a.Name
	case a.ID != "":
		return a.Kind + " " + a.ID
	}
	return a.Kind
}

// bindAuditSearch adds the flags that select events.
func bindAuditSearch(cmd *cobra.Command, q *client.ListAuditQuery) {
	cmd.Flags().StringVar(&q.Actor, "actor", "", "only events of this person or agent: a name or an id; or system")
	cmd.Flags().StringVar(&q.Action, "action", "", "only this action; call alone selects all actions of calls")
	cmd.Flags().StringVar(&q.Subject, "subject", "", "only events about the call, skill, agent or person with this id")
	bindTimeSpan(cmd, &q.From, &q.To)
}

func newAuditListCmd(e *Env) *cobra.Command {
	var query client.ListAuditQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List events, newest first",
		Example: "  holdpoint audit list --actor rita --action approval --from 2026-01-01",
		RunE: listPage(e, (*client.Client).ListAudit, &query, []string{"AT", "ACTION", "BY", "WITH", "FROM", "ABOUT", "DATA"}, func(v *client.AuditEvent) []string {
			return []string{
				formatTime(&v.At), v.Action, formatActor(value(v.Actor)), formatCredential(v.Credential), value(v.Address), v.Subject,
				clipCell(orEmpty(v.Data), 60),
			}
		}),
	}
	bindAuditSearch(cmd, &query)
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

func newAuditExportCmd(e *Env) *cobra.Command {
	var search client.ListAuditQuery
	cmd := &cobra.Command{
		Use: "export", Short: "Write all events that match a search, newest first, as JSON Lines",
		Long: `Write all events that match all flags, newest first, an event a line, without a limit. The export is
recorded with your name. If the command fails, its output is incomplete.`,
		Example: "  holdpoint audit export --from 2026-01-01 > audit.jsonl",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return api.ExportAudit(ctx, client.ExportAuditQuery{
				Actor: search.Actor, Action: search.Action, Subject: search.Subject, From: search.From, To: search.To,
			}, e.Stdout)
		}),
	}
	bindAuditSearch(cmd, &search)
	return cmd
}
