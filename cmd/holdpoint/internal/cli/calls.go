package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newCallsCmd(e *Env) *cobra.Command {
	return newGroup("calls", "Calls and their outcomes",
		newCallsListCmd(e), newCallsExportCmd(e), newCallsResolveCmd(e),
		&cobra.Command{
			Use: "show ID", Short: "Show a call",
			Example: "  holdpoint calls show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).GetCall, e.showCall),
		},
		&cobra.Command{
			Use: "cancel ID", Short: "Cancel a call that is not being sent yet",
			Example: "  holdpoint calls cancel 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.CancelCall(ctx, args[0])
				return printDone(e, reply, err, "Cancelled.")
			}),
		})
}

// formatOutcome is a call's status in a few words.
func formatOutcome(c *client.Call) string {
	text := c.Status
	if c.Failure != nil {
		text += ": " + *c.Failure
	}
	if value(c.Effect) == "possible" {
		text += ", may have been executed"
	}
	return text
}

// bindCallSearch adds the flags that select calls.
func bindCallSearch(cmd *cobra.Command, q *client.ListCallsQuery) {
	flags := cmd.Flags()
	flags.StringVar(&q.Agent, "agent", "", "only calls of this agent")
	flags.StringVar(&q.Skill, "skill", "", "only calls of this skill")
	flags.StringVar(&q.Tool, "tool", "", "only calls of this tool")
	flags.StringVar(&q.Person, "person", "", "only calls on behalf of this person, or decided by them: a name, an e-mail address or an id")
	flags.StringSliceVar(&q.Status, "status", nil, "only calls with this status; may be repeated")
	flags.StringVar(&q.Conversation, "conversation", "", "only calls of the conversation with this id")
	flags.StringVar(&q.Grant, "grant", "", "only calls that the grant with this id let pass")
	flags.StringVar(&q.Text, "text", "", "only calls with this text in their arguments, in upper or lower case")
	bindTimeSpan(cmd, &q.From, &q.To)
}

// bindTimeSpan adds the flags for the beginning and the end of a time span.
func bindTimeSpan(cmd *cobra.Command, from, to *string) {
	cmd.Flags().StringVar(from, "from", "", "only then or later: 2026-01-31, 2026-01-31T15:04 (UTC) or 2026-01-31T15:04:05+01:00")
	cmd.Flags().StringVar(to, "to", "", "only before then; a day is included as a whole")
}

func newCallsListCmd(e *Env) *cobra.Command {
	var query client.ListCallsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List calls, newest first",
		Long: `List the calls that match all flags, newest first. A search looks at a limited number of calls: a
page may be short, or empty, and name a cursor to continue from.`,
		Example: "  holdpoint calls list --agent billing --status unknown\n  holdpoint calls list --person rita --from 2026-01-01 --text invoices",
		RunE: listPage(e, (*client.Client).ListCalls, &query, []string{"ID", "STATUS", "AGENT", "FOR", "TOOL", "CREATED", "ARGUMENTS"}, func(c *client.Call) []string {
			return []string{
				c.ID, formatOutcome(c), c.Agent, shortPerson(fallbackPerson(c.PrincipalPerson, c.Principal)), c.Skill + ": " + c.Tool,
				formatTime(&c.CreatedAt), clipCell(string(c.Arguments), 50),
			}
		}),
	}
	bindCallSearch(cmd, &query)
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

func newCallsExportCmd(e *Env) *cobra.Command {
	var search client.ListCallsQuery
	var format string
	cmd := &cobra.Command{
		Use: "export", Short: "Write all calls that match a search, newest first",
		Long: `Write all calls that match all flags, newest first, without a limit. The export is recorded with your
name. It includes secrets in arguments.

jsonl: a call a line, as the API shows it, arguments byte for byte as they were sent.
csv: for spreadsheets (RFC 4180); a cell that a spreadsheet would take for a formula begins with an apostrophe.

If the command fails, its output is incomplete.`,
		Example: "  holdpoint calls export --format csv --from 2026-01-01 --to 2026-01-31 > january.csv",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			if format != "csv" && format != "jsonl" {
				return misusef("--format %s: must be csv or jsonl", format)
			}
			return api.ExportCalls(ctx, client.ExportCallsQuery{
				Agent: search.Agent, Skill: search.Skill, Tool: search.Tool, Person: search.Person, Status: search.Status,
				From: search.From, To: search.To, Conversation: search.Conversation, Grant: search.Grant, Text: search.Text, Format: format,
			}, e.Stdout)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl or csv")
	bindCallSearch(cmd, &search)
	return cmd
}

func (e *Env) showCall(c *client.Call) error {
	pairs := []string{
		"Call", c.ID, "Status", formatOutcome(c), "Code", value(c.Code), "Message", value(c.Message),
		"Agent", c.Agent, "On behalf of", fullPerson(fallbackPerson(c.PrincipalPerson, c.Principal)), "Tool", c.Skill + ": " + c.Tool,
		"Made", formatTime(&c.CreatedAt), "Ended", formatTime(c.FinishedAt), "Deadline", formatTime(c.Deadline),
		"Content deleted", formatTime(c.ContentDeletedAt),
	}
	pairs = append(pairs, gateFields(c.Gate)...)
	pairs = append(pairs, ruleFields(c.Rules)...)
	pairs = append(pairs, fileFields(c.Files)...)
	pairs = append(pairs, decisionFields(c.Decision)...)
	if r := c.Resolution; r != nil {
		pairs = append(pairs, "Resolved", r.Outcome+" by "+fullPerson(fallbackPerson(r.ByPerson, r.By)), "Note", r.Note)
	}
	if err := e.printFields(pairs...); err != nil {
		return err
	}
	out := ""
	if c.ContentDeletedAt == nil {
		out = "\nArguments\n" + prettyJSON(c.Arguments) + "\n"
	}
	if orEmpty(c.Result) != "" {
		out += "\nResult\n" + prettyJSON(c.Result) + "\n"
	}
	return write(e.Stdout, Visible(out))
}

func newCallsResolveCmd(e *Env) *cobra.Command {
	var outcome, note string
	cmd := &cobra.Command{
		Use: "resolve ID --outcome succeeded|failed", Short: "Record the outcome of a call whose outcome is unknown",
		Example: `  holdpoint calls resolve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --outcome succeeded --note "the file is there"`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if outcome != "succeeded" && outcome != "failed" {
				return misusef("--outcome: must be succeeded or failed")
			}
			reply, err := api.ResolveCall(ctx, args[0], client.ResolveRequest{Outcome: outcome, Note: &note})
			return printDone(e, reply, err, "Resolved.")
		}),
	}
	cmd.Flags().StringVar(&outcome, "outcome", "", "succeeded or failed")
	cmd.Flags().StringVar(&note, "note", "", "how you know")
	return cmd
}
