package cli

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// callSearch are the flags that select calls.
type callSearch struct {
	agent, skill, tool, person, conversation, text string
	times                                          timeSpan
	status                                         []string
}

func (s *callSearch) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.agent, "agent", "", "only calls of this agent")
	flags.StringVar(&s.skill, "skill", "", "only calls of this skill")
	flags.StringVar(&s.tool, "tool", "", "only calls of this tool")
	flags.StringVar(&s.person, "person", "", "only calls on behalf of this person, or decided by them: a name, an e-mail address or an id")
	flags.StringSliceVar(&s.status, "status", nil, "only calls that stand so; may be given several times")
	flags.StringVar(&s.conversation, "conversation", "", "only calls of the conversation of this id")
	flags.StringVar(&s.text, "text", "", "only calls with this text in their arguments, in letters of whatever case")
	s.times.bind(cmd)
}

func (s *callSearch) add(query url.Values) {
	add(query, map[string]string{
		"agent": s.agent, "skill": s.skill, "tool": s.tool, "person": s.person, "status": strings.Join(s.status, ","),
		"conversation": s.conversation, "text": s.text,
	})
	s.times.add(query)
}

// timeSpan are the flags of a time from and to.
type timeSpan struct{ from, to string }

func (s *timeSpan) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.from, "from", "", "only then or later: 2026-01-31, 2026-01-31T15:04 (UTC) or 2026-01-31T15:04:05+01:00")
	cmd.Flags().StringVar(&s.to, "to", "", "only before then; a day counts as a whole")
}

func (s *timeSpan) add(query url.Values) { add(query, map[string]string{"from": s.from, "to": s.to}) }

// add adds what is given.
func add(query url.Values, values map[string]string) {
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
}

func newCallsExportCmd(e *Env) *cobra.Command {
	var search callSearch
	format := "jsonl"
	cmd := &cobra.Command{
		Use: "export", Short: "Write all calls that a search selects, newest first", Args: usage(cobra.NoArgs),
		Long: `Write all calls that all flags together select, newest first, however many there are; it is recorded
who exports what. Secrets among arguments are in it.

jsonl: a call a line, as the API shows it, arguments byte for byte as they were sent.
csv: for spreadsheets (RFC 4180); a cell that a spreadsheet would take for a formula begins with an apostrophe.

If the command fails, what it wrote is not all of it.`,
		Example: "  holdpoint calls export --format csv --from 2026-01-01 --to 2026-01-31 > january.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "csv" && format != "jsonl" {
				return misuse("--format %s: want csv or jsonl", format)
			}
			query := url.Values{"format": {format}}
			search.add(query)
			return e.stream(cmd, "calls/export", query)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "jsonl or csv")
	search.bind(cmd)
	return cmd
}

// stream prints what the API answers, as it comes.
func (e *Env) stream(cmd *cobra.Command, path string, query url.Values) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	return api.Stream(cmd.Context(), path, query, e.Stdout)
}
