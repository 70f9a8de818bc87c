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

func newInsightsCmd(e *Env) *cobra.Command {
	var r insightRange
	cmd := &cobra.Command{
		Use: "insights", Short: "Figures of calls and approvals in a range of time",
		Long: `Figures of calls and approvals in a range of time: outcomes, waiting times, decision times, and how
often calls are approved. The figures of each reviewer are shown to operators only.`,
		Example: "  holdpoint insights --since 24h\n  holdpoint insights --from 2026-01-01 --to 2026-01-31 --zone Europe/Berlin --skill files",
	}
	r.bindFlags(cmd)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
		from, err := r.beginTime(e, cmd)
		if err != nil {
			return err
		}
		reply, err := api.GetInsights(ctx, client.GetInsightsQuery{From: from, To: r.to, Zone: r.zone, Skill: r.skill, Agent: r.agent})
		return printReply(e, reply, err, e.showInsights)
	})
	cmd.AddCommand(newInsightsToolsCmd(e))
	return cmd
}

// insightRange are the flags that select calls for figures.
type insightRange struct{ since, from, to, zone, skill, agent string }

func (r *insightRange) bindFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.since, "since", "7d", "how far back, such as 24h, 7d or 4w; not with --from or --to")
	flags.StringVar(&r.from, "from", "", "calls made then or later: RFC 3339, or a day, or a day and a time in the zone")
	flags.StringVar(&r.to, "to", "", "calls made before then; a day is included as a whole (default now)")
	flags.StringVar(&r.zone, "zone", "", "the time zone of days, weeks and hours, such as Europe/Berlin (default UTC)")
	flags.StringVar(&r.skill, "skill", "", "only calls of this skill")
	flags.StringVar(&r.agent, "agent", "", "only calls of this agent")
}

// beginTime returns the beginning of the range; "" leaves it to the server.
func (r *insightRange) beginTime(e *Env, cmd *cobra.Command) (string, error) {
	switch {
	case cmd.Flags().Changed("since") && r.from+r.to != "":
		return "", misusef("--since excludes --from and --to")
	case r.from+r.to != "":
		return r.from, nil
	}
	length, err := parseLength(r.since)
	if err != nil {
		return "", misusef("--since %q: must be a length of time such as 24h, 7d or 4w", r.since)
	}
	return e.Now().UTC().Add(-length).Format(time.RFC3339), nil
}

// parseLength parses a duration that may be in days or weeks.
func parseLength(text string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil || n == 0 {
				return 0, fmt.Errorf("%q is not a number of days or weeks", number)
			}
			return time.Duration(n) * length, nil
		}
	}
	length, err := time.ParseDuration(text)
	if err == nil && length <= 0 {
		err = fmt.Errorf("%s is not a positive length of time", text)
	}
	return length, err
}

func (e *Env) showInsights(v *client.Insights) error {
	if err := write(e.Stdout, fmt.Sprintf("Calls made from %s to %s\n\n", formatTime(&v.From), formatTime(&v.To))); err != nil {
		return err
	}
	if err := e.printTable([]string{"", "NOW", "BEFORE"}, insightRows(v)); err != nil {
		return err
	}
	header := []string{"ASKED", "APPROVED", "REJECTED", "EXPIRED", "SHARE APPROVED"}
	for _, part := range []struct {
		name   string
		shares []client.ApprovalShare
	}{{"SKILL", v.BySkill}, {"TOOL", v.ByTool}, {"RULE", v.ByRule}} {
		if err := e.printFurtherTable(append([]string{part.name}, header...), shareRows(part.shares)); err != nil {
			return err
		}
	}
	rows := make([][]string, len(v.ByPerson))
	for i, p := range v.ByPerson {
		rows[i] = []string{value(p.Person).Name, count(p.Decisions), count(p.Fast)}
	}
	if err := e.printFurtherTable([]string{"DECIDED BY", "DECISIONS", "IN LESS THAN 3 S"}, rows); err != nil {
		return err
	}
	return e.showUnusual(value(v.Unusual))
}

// showUnusual shows the decisions about unusual values. If there are none, it shows nothing.
func (e *Env) showUnusual(v client.UnusualFigures) error {
	var decisions int64
	times, people := make([][]string, len(v.ByTime)), make([][]string, len(v.ByPerson))
	for i, t := range v.ByTime {
		decisions += t.Approved + t.Rejected
		length := formatSeconds(&t.FromSeconds) + " or more"
		if t.ToSeconds != nil {
			length = formatSeconds(&t.FromSeconds) + " to " + formatSeconds(t.ToSeconds)
		}
		times[i] = []string{length, count(t.Approved), count(t.Rejected)}
	}
	if decisions == 0 {
		return nil
	}
	if err := e.printFurtherTable([]string{"UNUSUAL VALUES, ON SCREEN", "APPROVED", "REJECTED"}, times); err != nil {
		return err
	}
	for i, p := range v.ByPerson {
		people[i] = []string{value(p.Person).Name, count(p.Decisions), formatSeconds(&p.MedianSeconds), count(p.Hasty)}
	}
	return e.printFurtherTable([]string{"UNUSUAL VALUES, DECIDED BY", "DECISIONS", "MEDIAN", "IN LESS THAN 2 S"}, people)
}

// printFurtherTable prints a table after an empty line. A table without rows is left out.
func (e *Env) printFurtherTable(header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if err := write(e.Stdout, "\n"); err != nil {
		return err
	}
	return e.printTable(header, rows)
}

// insightRows are the main figures of the range and of the one before.
func insightRows(v *client.Insights) [][]string {
	calls, callsBefore := value(v.Calls), value(v.CallsBefore)
	rows := [][]string{{"calls", count(calls.Total), count(callsBefore.Total)}}
	add := func(name string, now, before int64) {
		if now+before > 0 {
			rows = append(rows, []string{name, count(now), count(before)})
		}
	}
	for _, status := range []string{"succeeded", "failed", "unknown", "rejected", "expired", "cancelled", "denied", "invalid", "parked", "needs_connection", "approved", "executing"} {
		add("  "+strings.ReplaceAll(status, "_", " "), calls.ByStatus[status], callsBefore.ByStatus[status])
	}
	for _, kind := range []string{"tool_error", "jsonrpc_error", "transport", "protocol", "session_invalid"} {
		add("  failed: "+kind, calls.Failures[kind], callsBefore.Failures[kind])
	}
	a, b := value(v.Approvals), value(v.ApprovalsBefore)
	waiting, waitingBefore, deciding, decidingBefore := value(a.Waiting), value(b.Waiting), value(a.Deciding), value(b.Deciding)
	return append(rows,
		[]string{"approvals asked for", count(a.Asked), count(b.Asked)},
		[]string{"approved, of decisions", formatPercent(a.ApprovedShare), formatPercent(b.ApprovedShare)},
		[]string{"decisions in less than 3 s", count(a.Fast), count(b.Fast)},
		[]string{"waiting, median", formatSeconds(waiting.P50Seconds), formatSeconds(waitingBefore.P50Seconds)},
		[]string{"waiting, p90", formatSeconds(waiting.P90Seconds), formatSeconds(waitingBefore.P90Seconds)},
		[]string{"deciding, median", formatSeconds(deciding.P50Seconds), formatSeconds(decidingBefore.P50Seconds)},
		[]string{"deciding, p90", formatSeconds(deciding.P90Seconds), formatSeconds(decidingBefore.P90Seconds)},
	)
}

func shareRows(shares []client.ApprovalShare) [][]string {
	rows := make([][]string, len(shares))
	for i := range shares {
		s := &shares[i]
		name := value(s.Rule)
		switch {
		case s.Tool != nil:
			name = value(s.Skill) + ": " + *s.Tool
		case s.Skill != nil:
			name = *s.Skill
		}
		rows[i] = []string{name, count(s.Asked), count(s.Approved), count(s.Rejected), count(s.Expired), formatPercent(s.ApprovedShare)}
	}
	return rows
}

func formatPercent(share *float64) string {
	if share == nil {
		return ""
	}
	return strconv.FormatFloat(*share*100, 'f', 0, 64) + " %"
}

func formatSeconds(n *float64) string {
	if n == nil {
		return ""
	}
	length := time.Duration(*n * float64(time.Second))
	if length < 10*time.Second {
		return length.Round(100 * time.Millisecond).String()
	}
	return length.Round(time.Second).String()
}

func newInsightsToolsCmd(e *Env) *cobra.Command {
	var r insightRange
	var query client.GetToolInsightsQuery
	cmd := &cobra.Command{
		Use: "tools", Short: "Figures of calls by tool in a range of time",
		Long: `Figures of calls by tool in a range of time: number, outcomes, the server's response time, bytes sent
and received. For all selected calls together: HTTP statuses, the duration of each step, and the most
frequent errors. Times are off by at most a sixteenth.`,
		Example: "  holdpoint insights tools --since 24h --sort errors\n  holdpoint insights tools --skill files --tool write",
	}
	r.bindFlags(cmd)
	cmd.Flags().StringVar(&query.Tool, "tool", "", "only calls of the tool that has this name in its skill")
	cmd.Flags().StringVar(&query.Sort, "sort", "", "calls, errors, p50, p95, bytes, last or name (default: calls)")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
		var err error
		if query.From, err = r.beginTime(e, cmd); err != nil {
			return err
		}
		query.To, query.Zone, query.Skill, query.Agent = r.to, r.zone, r.skill, r.agent
		reply, err := api.GetToolInsights(ctx, query)
		return printReply(e, reply, err, e.showToolInsights)
	})
	return cmd
}

func (e *Env) showToolInsights(v *client.ToolInsights) error {
	if err := write(e.Stdout, fmt.Sprintf("Calls made from %s to %s, of %d tools\n", formatTime(&v.From), formatTime(&v.To), v.Total)); err != nil {
		return err
	}
	tools, statuses := make([][]string, len(v.Tools)), make([][]string, len(v.HTTPStatuses))
	for i := range v.Tools {
		f := &v.Tools[i]
		succeeded, failed, unknown := f.ByStatus["succeeded"], f.ByStatus["failed"], f.ByStatus["unknown"]
		latency := value(f.Latency)
		tools[i] = []string{
			value(f.Skill) + ": " + f.Tool, count(f.Calls), count(succeeded), count(failed), count(unknown),
			count(f.Calls - succeeded - failed - unknown), formatPercent(f.ErrorShare), formatShort(latency.P50Seconds), formatShort(latency.P95Seconds),
			count(f.BytesSent), count(f.BytesReceived), formatTime(&f.LastCallAt),
		}
	}
	for i, s := range v.HTTPStatuses {
		statuses[i] = []string{count(s.HTTPStatus), count(s.Calls)}
	}
	steps, errs := make([][]string, len(v.Steps)), make([][]string, len(v.Errors))
	for i, s := range v.Steps {
		steps[i] = []string{s.Step, count(s.Count), formatShort(s.P50Seconds), formatShort(s.P95Seconds), formatShort(s.P99Seconds)}
	}
	for i := range v.Errors {
		f := &v.Errors[i]
		status := ""
		if f.HTTPStatus != nil {
			status = count(*f.HTTPStatus)
		}
		errs[i] = []string{value(f.Skill) + ": " + f.Tool, f.Status, value(f.Code), status, value(f.Line), count(f.Calls), formatTime(&f.LastCallAt)}
	}
	for _, part := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"TOOL", "CALLS", "SUCCEEDED", "FAILED", "UNKNOWN", "OTHERS", "ERRORS", "P50", "P95", "BYTES SENT", "RECEIVED", "LAST CALL"}, tools},
		{[]string{"HTTP STATUS", "CALLS"}, statuses},
		{[]string{"STEP", "CALLS", "P50", "P95", "P99"}, steps},
		{[]string{"ERRORS OF", "STATUS", "CODE", "HTTP", "WHAT", "CALLS", "LAST CALL"}, errs},
	} {
		if err := e.printFurtherTable(part.header, part.rows); err != nil {
			return err
		}
	}
	return nil
}

// formatShort formats a length of time that may be very short.
func formatShort(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	length := time.Duration(*seconds * float64(time.Second))
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if length >= 10*unit {
			return strings.TrimSuffix(length.Round(unit).String(), "m0s")
		}
	}
	return length.Round(time.Microsecond).String()
}
