package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newCallsCmd(e *Env) *cobra.Command {
	return group("calls", "Calls and what became of them",
		newCallsListCmd(e), newCallsExportCmd(e), newCallsShowCmd(e), newCallsCancelCmd(e), newCallsResolveCmd(e))
}

type callView struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	Code       *string         `json:"code"`
	Failure    *string         `json:"failure"`
	Effect     *string         `json:"effect"`
	Message    *string         `json:"message"`
	Agent      string          `json:"agent"`
	Principal  *string         `json:"principal"`
	Person     *personName     `json:"principal_person"`
	Skill      string          `json:"skill"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"`
	Files      []fileView      `json:"files"`
	Result     json.RawMessage `json:"result"`
	CreatedAt  time.Time       `json:"created_at"`
	FinishedAt *time.Time      `json:"finished_at"`
	Deadline   *time.Time      `json:"deadline"`
	Decision   *decisionView   `json:"decision"`
	Resolution *struct {
		Outcome string      `json:"outcome"`
		Note    string      `json:"note"`
		By      *string     `json:"by"`
		Person  *personName `json:"by_person"`
	} `json:"resolution"`
}

// outcome is a call's status in a few words.
func (c callView) outcome() string {
	text := c.Status
	if c.Failure != nil {
		text += ": " + *c.Failure
	}
	if value(c.Effect) == "possible" {
		text += ", may have been executed"
	}
	return text
}

func newCallsListCmd(e *Env) *cobra.Command {
	var p page
	var search callSearch
	cmd := &cobra.Command{
		Use: "list", Short: "List calls, newest first", Args: usage(cobra.NoArgs),
		Long: `List the calls that all flags together select, newest first. A search looks at a bounded number of
calls: a page may be short, or empty, and name a cursor from which to go on.`,
		Example: "  holdpoint calls list --agent billing --status unknown\n  holdpoint calls list --person rita --from 2026-01-01 --text invoices",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			search.add(query)
			text, err := e.get(cmd.Context(), "calls", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "STATUS", "AGENT", "FOR", "TOOL", "CREATED", "ARGUMENTS"},
				func(c callView) []string {
					return []string{
						c.ID, c.outcome(), c.Agent, personOr(c.Person, c.Principal).short(), c.Skill + ": " + c.Tool, moment(&c.CreatedAt),
						clipped(string(c.Arguments), 50),
					}
				})
		},
	}
	search.bind(cmd)
	p.bind(cmd)
	return cmd
}

func newCallsShowCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a call", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint calls show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "calls/"+client.Segment(args[0]), nil)
			if err != nil {
				return err
			}
			return e.printCall(text)
		},
	}
}

func (e *Env) printCall(text json.RawMessage) error {
	if e.json {
		return e.printJSON(text)
	}
	c, err := decode[callView](text)
	if err != nil {
		return err
	}
	pairs := []string{
		"Call", c.ID, "Status", c.outcome(), "Code", value(c.Code), "Message", value(c.Message),
		"Agent", c.Agent, "On behalf of", personOr(c.Person, c.Principal).full(), "Tool", c.Skill + ": " + c.Tool,
		"Made", moment(&c.CreatedAt), "Ended", moment(c.FinishedAt), "Deadline", moment(c.Deadline),
	}
	pairs = append(pairs, filePairs(c.Files)...)
	pairs = append(pairs, c.Decision.pairs()...)
	if r := c.Resolution; r != nil {
		pairs = append(pairs, "Resolved", r.Outcome+" by "+personOr(r.Person, r.By).full(), "Note", r.Note)
	}
	if err := e.fields(pairs...); err != nil {
		return err
	}
	out := "\nArguments\n" + prettyJSON(c.Arguments) + "\n"
	if len(c.Result) > 0 && string(c.Result) != "null" {
		out += "\nResult\n" + prettyJSON(c.Result) + "\n"
	}
	return write(e.Stdout, Visible(out))
}

func newCallsCancelCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a call that is not being sent yet", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint calls cancel 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "calls/"+client.Segment(args[0])+"/cancel", nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, "Cancelled.\n")
		},
	}
}

func newCallsResolveCmd(e *Env) *cobra.Command {
	var outcome, note string
	cmd := &cobra.Command{
		Use: "resolve ID --outcome succeeded|failed", Short: "Say what became of a call whose outcome is unknown",
		Example: `  holdpoint calls resolve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --outcome succeeded --note "the file is there"`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if outcome != "succeeded" && outcome != "failed" {
				return misuse("say with --outcome whether it succeeded or failed")
			}
			text, err := e.post(cmd.Context(), "calls/"+client.Segment(args[0])+"/resolve",
				map[string]string{"outcome": outcome, "note": note})
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, "Resolved.\n")
		},
	}
	cmd.Flags().StringVar(&outcome, "outcome", "", "succeeded or failed")
	cmd.Flags().StringVar(&note, "note", "", "how you know")
	return cmd
}
