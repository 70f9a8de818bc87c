package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newInsightsCmd(e *Env) *cobra.Command {
	var r insightRange
	cmd := &cobra.Command{
		Use: "insights", Short: "Figures of calls and approvals in a range of time", Args: usage(cobra.NoArgs),
		Long: `Figures of calls and approvals in a range of time: what became of them, how long they waited, how long
decisions took, and what is approved how often. What each person decided is shown to operators.`,
		Example: "  holdpoint insights --since 24h\n  holdpoint insights --from 2026-01-01 --to 2026-01-31 --skill files",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := r.query(e, cmd)
			if err != nil {
				return err
			}
			text, err := e.get(cmd.Context(), "insights", query)
			if err != nil {
				return err
			}
			return e.printInsights(text)
		},
	}
	r.flags(cmd)
	cmd.AddCommand(newInsightsToolsCmd(e))
	return cmd
}

// insightRange is what calls figures are about.
type insightRange struct{ since, from, to, skill, agent string }

func (r *insightRange) query(e *Env, cmd *cobra.Command) (url.Values, error) {
	query := url.Values{}
	switch {
	case cmd.Flags().Changed("since") && r.from+r.to != "":
		return nil, misuse("--since goes without --from and --to")
	case r.from != "":
		query.Set("from", r.from)
	case r.to == "":
		length, err := longDuration(r.since)
		if err != nil {
			return nil, misuse("--since %q: expected a length of time such as 24h, 7d or 4w", r.since)
		}
		query.Set("from", e.Now().UTC().Add(-length).Format(time.RFC3339))
	}
	for name, value := range map[string]string{"to": r.to, "skill": r.skill, "agent": r.agent} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query, nil
}

func (r *insightRange) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.since, "since", "7d", "how far back, such as 24h, 7d or 4w; not with --from or --to")
	flags.StringVar(&r.from, "from", "", "calls made then or later: RFC 3339, or a day, or a day and a time in UTC")
	flags.StringVar(&r.to, "to", "", "calls made before then; a day counts as a whole (default: now)")
	flags.StringVar(&r.skill, "skill", "", "only calls of this skill")
	flags.StringVar(&r.agent, "agent", "", "only calls of this agent")
}

// longDuration also knows days and weeks.
func longDuration(text string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil || n == 0 {
				return 0, fmt.Errorf("%q is no number of days or weeks", number)
			}
			return time.Duration(n) * length, nil
		}
	}
	length, err := time.ParseDuration(text)
	if err == nil && length <= 0 {
		err = fmt.Errorf("%s is not back in time", text)
	}
	return length, err
}

type insightCounts struct {
	Asked    int      `json:"asked"`
	Pending  int      `json:"pending"`
	Approved int      `json:"approved"`
	Rejected int      `json:"rejected"`
	Expired  int      `json:"expired"`
	Share    *float64 `json:"approved_share"`
	Fast     int      `json:"fast"`
}

type insightSpread struct {
	P50 *float64 `json:"p50_seconds"`
	P90 *float64 `json:"p90_seconds"`
}

type insightApprovals struct {
	insightCounts
	Waiting  insightSpread `json:"waiting"`
	Deciding insightSpread `json:"deciding"`
}

type insightCalls struct {
	Total    int            `json:"total"`
	ByStatus map[string]int `json:"by_status"`
	Failures map[string]int `json:"failures"`
}

type insightShare struct {
	Skill *string `json:"skill"`
	Tool  *string `json:"tool"`
	Rule  *string `json:"rule"`
	insightCounts
}

type insightsView struct {
	From            time.Time        `json:"from"`
	To              time.Time        `json:"to"`
	Calls           insightCalls     `json:"calls"`
	CallsBefore     insightCalls     `json:"calls_before"`
	Approvals       insightApprovals `json:"approvals"`
	ApprovalsBefore insightApprovals `json:"approvals_before"`
	BySkill         []insightShare   `json:"by_skill"`
	ByTool          []insightShare   `json:"by_tool"`
	ByRule          []insightShare   `json:"by_rule"`
	ByPerson        []struct {
		Person    personName `json:"person"`
		Decisions int        `json:"decisions"`
		Fast      int        `json:"fast"`
	} `json:"by_person"`
}

func (e *Env) printInsights(text json.RawMessage) error {
	if e.json {
		return e.printJSON(text)
	}
	v, err := decode[insightsView](text)
	if err != nil {
		return err
	}
	if err := write(e.Stdout, fmt.Sprintf("Calls made from %s to %s\n\n", moment(&v.From), moment(&v.To))); err != nil {
		return err
	}
	if err := e.table([]string{"", "NOW", "BEFORE"}, v.rows()); err != nil {
		return err
	}
	header := []string{"ASKED", "APPROVED", "REJECTED", "EXPIRED", "SHARE APPROVED"}
	for _, part := range []struct {
		name   string
		shares []insightShare
	}{{"SKILL", v.BySkill}, {"TOOL", v.ByTool}, {"RULE", v.ByRule}} {
		if err := e.insightTable(append([]string{part.name}, header...), shareRows(part.shares)); err != nil {
			return err
		}
	}
	rows := make([][]string, len(v.ByPerson))
	for i, p := range v.ByPerson {
		rows[i] = []string{p.Person.Name, strconv.Itoa(p.Decisions), strconv.Itoa(p.Fast)}
	}
	return e.insightTable([]string{"DECIDED BY", "DECISIONS", "IN LESS THAN 3 S"}, rows)
}

// insightTable is a further table; one without rows is left out.
func (e *Env) insightTable(header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if err := write(e.Stdout, "\n"); err != nil {
		return err
	}
	return e.table(header, rows)
}

// rows are the main figures, now and before.
func (v *insightsView) rows() [][]string {
	rows := [][]string{{"calls", strconv.Itoa(v.Calls.Total), strconv.Itoa(v.CallsBefore.Total)}}
	count := func(name string, now, before int) {
		if now+before > 0 {
			rows = append(rows, []string{name, strconv.Itoa(now), strconv.Itoa(before)})
		}
	}
	for _, status := range []string{"succeeded", "failed", "unknown", "rejected", "expired", "cancelled", "denied", "invalid", "parked", "needs_connection", "approved", "executing"} {
		count("  "+strings.ReplaceAll(status, "_", " "), v.Calls.ByStatus[status], v.CallsBefore.ByStatus[status])
	}
	for _, kind := range []string{"tool_error", "jsonrpc_error", "transport", "protocol", "session_invalid"} {
		count("  failed: "+kind, v.Calls.Failures[kind], v.CallsBefore.Failures[kind])
	}
	a, b := &v.Approvals, &v.ApprovalsBefore
	return append(rows,
		[]string{"approvals asked for", strconv.Itoa(a.Asked), strconv.Itoa(b.Asked)},
		[]string{"approved, of decisions", percent(a.Share), percent(b.Share)},
		[]string{"decisions in less than 3 s", strconv.Itoa(a.Fast), strconv.Itoa(b.Fast)},
		[]string{"waiting, half at most", seconds(a.Waiting.P50), seconds(b.Waiting.P50)},
		[]string{"waiting, nine tenths at most", seconds(a.Waiting.P90), seconds(b.Waiting.P90)},
		[]string{"deciding, half at most", seconds(a.Deciding.P50), seconds(b.Deciding.P50)},
		[]string{"deciding, nine tenths at most", seconds(a.Deciding.P90), seconds(b.Deciding.P90)},
	)
}

func shareRows(shares []insightShare) [][]string {
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
		rows[i] = []string{
			name, strconv.Itoa(s.Asked), strconv.Itoa(s.Approved), strconv.Itoa(s.Rejected), strconv.Itoa(s.Expired), percent(s.Share),
		}
	}
	return rows
}

// percent is a share as people read it; empty when there is none.
func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return strconv.FormatFloat(*share*100, 'f', 0, 64) + " %"
}

// seconds is a length of time as people read it.
func seconds(n *float64) string {
	if n == nil {
		return ""
	}
	length := time.Duration(*n * float64(time.Second))
	if length < 10*time.Second {
		return length.Round(100 * time.Millisecond).String()
	}
	return length.Round(time.Second).String()
}
