package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newInsightsToolsCmd(e *Env) *cobra.Command {
	var r insightRange
	var tool, sort string
	cmd := &cobra.Command{
		Use: "tools", Short: "Figures of calls by tool in a range of time", Args: usage(cobra.NoArgs),
		Long: `Figures of calls by tool in a range of time: how many there were, what became of them, how long the server took, how many
bytes went to and fro; and of all that is selected the HTTP statuses, what each step took, and the errors that were
most frequent. Times are off by at most a sixteenth.`,
		Example: "  holdpoint insights tools --since 24h --sort errors\n  holdpoint insights tools --skill files --tool write",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := r.query(e, cmd)
			if err != nil {
				return err
			}
			for name, value := range map[string]string{"tool": tool, "sort": sort} {
				if value != "" {
					query.Set(name, value)
				}
			}
			text, err := e.get(cmd.Context(), "insights/tools", query)
			if err != nil {
				return err
			}
			return e.printToolInsights(text)
		},
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&tool, "tool", "", "only calls of the tool that its skill calls so")
	cmd.Flags().StringVar(&sort, "sort", "", "calls, errors, p50, p95, bytes, last or name (default: calls)")
	return cmd
}

type latencyView struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50_seconds"`
	P95   *float64 `json:"p95_seconds"`
	P99   *float64 `json:"p99_seconds"`
}

type toolInsightsView struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Total int       `json:"total"`
	Tools []struct {
		Skill      *string        `json:"skill"`
		Tool       string         `json:"tool"`
		Calls      int            `json:"calls"`
		ByStatus   map[string]int `json:"by_status"`
		ErrorShare *float64       `json:"error_share"`
		Latency    latencyView    `json:"latency"`
		Sent       int64          `json:"bytes_sent"`
		Received   int64          `json:"bytes_received"`
		Last       time.Time      `json:"last_call_at"`
	} `json:"tools"`
	HTTPStatuses []struct {
		HTTPStatus int `json:"http_status"`
		Calls      int `json:"calls"`
	} `json:"http_statuses"`
	Steps []struct {
		Step string `json:"step"`
		latencyView
	} `json:"steps"`
	Errors []struct {
		Skill      *string   `json:"skill"`
		Tool       string    `json:"tool"`
		Status     string    `json:"status"`
		Code       *string   `json:"code"`
		HTTPStatus *int      `json:"http_status"`
		Line       *string   `json:"line"`
		Calls      int       `json:"calls"`
		Last       time.Time `json:"last_call_at"`
	} `json:"errors"`
}

func (e *Env) printToolInsights(text json.RawMessage) error {
	if e.json {
		return e.printJSON(text)
	}
	v, err := decode[toolInsightsView](text)
	if err != nil {
		return err
	}
	if err := write(e.Stdout, fmt.Sprintf("Calls made from %s to %s, of %d tools\n", moment(&v.From), moment(&v.To), v.Total)); err != nil {
		return err
	}
	tools, statuses := v.toolRows(), make([][]string, len(v.HTTPStatuses))
	for i, s := range v.HTTPStatuses {
		statuses[i] = []string{strconv.Itoa(s.HTTPStatus), strconv.Itoa(s.Calls)}
	}
	steps, errs := make([][]string, len(v.Steps)), make([][]string, len(v.Errors))
	for i, s := range v.Steps {
		steps[i] = []string{s.Step, strconv.Itoa(s.Count), short(s.P50), short(s.P95), short(s.P99)}
	}
	for i := range v.Errors {
		f := &v.Errors[i]
		status := ""
		if f.HTTPStatus != nil {
			status = strconv.Itoa(*f.HTTPStatus)
		}
		errs[i] = []string{value(f.Skill) + ": " + f.Tool, f.Status, value(f.Code), status, value(f.Line), strconv.Itoa(f.Calls), moment(&f.Last)}
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
		if err := e.insightTable(part.header, part.rows); err != nil {
			return err
		}
	}
	return nil
}

func (v *toolInsightsView) toolRows() [][]string {
	rows := make([][]string, len(v.Tools))
	for i := range v.Tools {
		f := &v.Tools[i]
		succeeded, failed, unknown := f.ByStatus["succeeded"], f.ByStatus["failed"], f.ByStatus["unknown"]
		rows[i] = []string{
			value(f.Skill) + ": " + f.Tool, strconv.Itoa(f.Calls), strconv.Itoa(succeeded), strconv.Itoa(failed), strconv.Itoa(unknown),
			strconv.Itoa(f.Calls - succeeded - failed - unknown), percent(f.ErrorShare), short(f.Latency.P50), short(f.Latency.P95),
			strconv.FormatInt(f.Sent, 10), strconv.FormatInt(f.Received, 10), moment(&f.Last),
		}
	}
	return rows
}

// short is a length of time that may be very short, as people read it.
func short(seconds *float64) string {
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
