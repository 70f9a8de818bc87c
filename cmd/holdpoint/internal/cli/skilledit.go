package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newSkillShowCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "show SKILL", Short: "Show a skill, without its secrets",
		Example: "  holdpoint skill show files",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.show(cmd, "skills/"+client.Segment(args[0]))
		},
	}
}

// show prints one thing as the API tells it, with --json byte for byte.
func (e *Env) show(cmd *cobra.Command, path string) error {
	text, err := e.get(cmd.Context(), path, nil)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(text)
	}
	return write(e.Stdout, Visible(prettyJSON(text))+"\n")
}

func newSkillDeleteCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete SKILL", Short: "Delete a skill; no agent has it any more",
		Long: `Delete a skill. Every agent loses it, its connections are forgotten, and calls of it that wait are
denied when they are approved. What was recorded of its calls stays.`,
		Example: "  holdpoint skill delete files",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "skills/"+client.Segment(args[0]), "Deleted.")
		},
	}
}

func newSkillSetCmd(e *Env) *cobra.Command {
	var risk, program string
	var idempotent, enabled bool
	cmd := &cobra.Command{
		Use: "set SKILL TOOL", Short: "Change what operators say of one tool",
		Long: `Change what operators say of one tool of a skill: whether its risk is high, so that every call of it
is looked at; whether it is idempotent, so that a call that may not have arrived is sent again; whether
it is enabled; of HTTP APIs, what of a JSON answer is the result (--select; that changes the tool's
definition, which has to be accepted then). What no flag names stays. For the skill itself, see "holdpoint skill edit".`,
		Example: `  holdpoint skill set files move_file --risk high
  holdpoint skill set files read_file --idempotent --risk none
  holdpoint skill set files delete_file --enabled=false
  holdpoint skill set shop listOrders --select '[.items[] | {id, total}]'`,
		Args: usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch := map[string]any{}
			switch {
			case !cmd.Flags().Changed("risk"):
			case risk == "none":
				patch["risk"] = ""
			default:
				patch["risk"] = risk
			}
			if cmd.Flags().Changed("idempotent") {
				patch["idempotent"] = idempotent
			}
			if cmd.Flags().Changed("enabled") {
				patch["enabled"] = enabled
			}
			if cmd.Flags().Changed("select") {
				patch["select"] = program
			}
			if len(patch) == 0 {
				return misuse("say with --risk, --idempotent, --enabled or --select what to change")
			}
			return e.setTool(cmd, args[0], args[1], patch)
		},
	}
	cmd.Flags().StringVar(&risk, "risk", "", "high, or none")
	cmd.Flags().BoolVar(&idempotent, "idempotent", false, "whether a call may be sent again")
	cmd.Flags().BoolVar(&enabled, "enabled", true, "whether agents may use it")
	cmd.Flags().StringVar(&program, "select", "", `a jq program that makes the result of a JSON answer; "" is all of it`)
	return cmd
}

func (e *Env) setTool(cmd *cobra.Command, skill, name string, patch map[string]any) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	text, err := api.Patch(cmd.Context(), "skills/"+client.Segment(skill)+"/tools/"+client.Segment(name), patch)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(text)
	}
	changed, err := decode[struct {
		Tools map[string]json.RawMessage `json:"tools"`
	}](text)
	if err != nil {
		return err
	}
	says := "nothing"
	if settings, ok := changed.Tools[name]; ok {
		says = string(settings)
	}
	return write(e.Stdout, cell(fmt.Sprintf("Of %s operators now say %s.", name, says))+"\n")
}

// history is how a skill's server answered over time.
type history struct {
	Spans []struct {
		From      time.Time `json:"from"`
		Succeeded int       `json:"succeeded"`
		Failed    int       `json:"failed"`
	} `json:"spans"`
	Troubles []struct {
		Kind  string    `json:"kind"`
		Error string    `json:"error"`
		Times int       `json:"times"`
		Last  time.Time `json:"last"`
	} `json:"troubles"`
}

func newSkillHealthCmd(e *Env) *cobra.Command {
	var span string
	cmd := &cobra.Command{
		Use: "health SKILL", Short: "Show how a skill's server answered over time",
		Example: "  holdpoint skill health files --range 30d",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "skills/"+client.Segment(args[0])+"/health", url.Values{"range": {span}})
			if err != nil {
				return err
			}
			return e.printHistory(text)
		},
	}
	cmd.Flags().StringVar(&span, "range", "24h", "24h or 30d")
	return cmd
}

func (e *Env) printHistory(text json.RawMessage) error {
	if e.json {
		return e.printJSON(text)
	}
	found, err := decode[history](text)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(found.Spans))
	for _, s := range found.Spans {
		rows = append(rows, []string{moment(&s.From), strconv.Itoa(s.Succeeded), strconv.Itoa(s.Failed)})
	}
	if err := e.table([]string{"FROM", "ANSWERED", "FAILED"}, rows); err != nil {
		return err
	}
	for _, t := range found.Troubles {
		line := fmt.Sprintf("%s, %s, %d times, last %s", t.Kind, t.Error, t.Times, moment(&t.Last))
		if err := write(e.Stdout, cell(strings.TrimSpace(line))+"\n"); err != nil {
			return err
		}
	}
	return nil
}
