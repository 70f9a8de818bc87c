package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newSkillCmd(e *Env) *cobra.Command {
	return group("skill", "Skills and their tools",
		newSkillListCmd(e), newSkillShowCmd(e), newSkillCreateCmd(e), newSkillEditCmd(e), newSkillDeleteCmd(e), newSkillProbeCmd(e), newSkillHealthCmd(e),
		newSkillToolsCmd(e), newSkillSetCmd(e), newSkillAcceptCmd(e), newSkillRefuseCmd(e), newSkillDocumentCmd(e), newSkillTryCmd(e), newSkillImportCmd(e))
}

type skillRow struct {
	Name        string   `json:"name"`
	Transport   string   `json:"transport"`
	URL         *string  `json:"url"`
	BaseURL     *string  `json:"base_url"`
	Spec        *string  `json:"spec"`
	Command     []string `json:"command"`
	AutoApprove bool     `json:"auto_approve"`
	Connection  string   `json:"connection"`
	Team        *string  `json:"team"`
	EscalateTo  *string  `json:"escalate_to"`
	OAuth       *struct {
		Grant string `json:"grant"`
	} `json:"oauth"`
	Health struct {
		Status   string     `json:"status"`
		ListedAt *time.Time `json:"listed_at"`
		Kind     *string    `json:"kind"`
		Error    *string    `json:"error"`
	} `json:"health"`
}

// authorization says in short how its server is authorized to, where anything was said of it.
func (s *skillRow) authorization() string {
	var parts []string
	if s.OAuth != nil {
		parts = append(parts, s.OAuth.Grant)
	}
	if s.Connection == "per_user" {
		parts = append(parts, "per user")
	}
	return strings.Join(parts, ", ")
}

// attention says in short whose attention calls want, and later whose.
func attention(team, escalateTo *string) string {
	switch {
	case value(escalateTo) == "":
		return value(team)
	case value(team) == "":
		return "later " + *escalateTo
	}
	return *team + ", later " + *escalateTo
}

func newSkillListCmd(e *Env) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "list", Short: "List skills and how they do", Example: "  holdpoint skill list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "skills", p.query())
			if err != nil {
				return err
			}
			return printList(e, text, []string{"NAME", "CALLS", "HEALTH", "LISTED", "TEAM", "OAUTH", "SERVER"}, func(s skillRow) []string {
				calls, server := "parked", strings.Join(s.Command, " ")
				if s.AutoApprove {
					calls = "auto-approved"
				}
				if address := cmp.Or(value(s.URL), value(s.BaseURL), value(s.Spec)); address != "" {
					server = address
				}
				health := s.Health.Status
				if s.Health.Kind != nil {
					health = clipped(fmt.Sprintf("%s: %s: %s", health, *s.Health.Kind, value(s.Health.Error)), 60)
				}
				return []string{
					s.Name, calls, health, moment(s.Health.ListedAt), attention(s.Team, s.EscalateTo), s.authorization(), clipped(server, 60),
				}
			})
		},
	}
	p.bind(cmd)
	return cmd
}

type skillTool struct {
	Name        string          `json:"name"`
	State       string          `json:"state"`
	Pin         string          `json:"pin"`
	AcceptedPin *string         `json:"accepted_pin"`
	Definition  json.RawMessage `json:"definition"`
	Accepted    json.RawMessage `json:"accepted_definition"`
}

func (t skillTool) description() string {
	var d struct {
		Description string `json:"description"`
	}
	if json.Unmarshal(t.Definition, &d) != nil {
		return ""
	}
	return firstLine(d.Description)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clipped(line, 80)
}

func newSkillToolsCmd(e *Env) *cobra.Command {
	var refresh bool
	cmd := &cobra.Command{
		Use: "tools SKILL", Short: "List the tools that a skill's server offers, with their pins",
		Long: `List the tools that a skill's server offers, with their pins.

Calls of a tool that is "new" or "changed" are parked, even those of an auto-approved skill, until
an operator accepts its definition. Those of a "refused" one are denied.`,
		Example: "  holdpoint skill tools files --refresh",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "skills/" + client.Segment(args[0]) + "/tools"
			if refresh {
				path += "?refresh=true"
			}
			text, err := e.get(cmd.Context(), path, nil)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"NAME", "STATE", "PIN", "DESCRIPTION"}, func(t skillTool) []string {
				return []string{t.Name, t.State, t.Pin[:min(len(t.Pin), 12)], t.description()}
			})
		},
	}
	cmd.Flags().BoolVar(&refresh, "refresh", false, "ask the skill's server anew, as you reach it")
	return cmd
}

func newSkillAcceptCmd(e *Env) *cobra.Command {
	var pin string
	cmd := &cobra.Command{
		Use: "accept SKILL TOOL", Short: "Accept the present definition of a tool",
		Long: `Accept the present definition of a tool, so that its calls need no approval for being changed or
new. Without --pin the definition is fetched, shown, and accepted as it was shown.`,
		Example: "  holdpoint skill accept files write_file --pin 5f0c…",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.settleTool(cmd, args[0], args[1], pin, "accept", "Accepted")
		},
	}
	cmd.Flags().StringVar(&pin, "pin", "", "of the definition that you looked at")
	return cmd
}

func newSkillRefuseCmd(e *Env) *cobra.Command {
	var pin string
	cmd := &cobra.Command{
		Use: "refuse SKILL TOOL", Short: "Refuse the present definition of a tool",
		Long: `Refuse the present definition of a tool: while its server offers that, no call of it is sent and no
agent is offered it. Accepting it takes this back. Without --pin the definition is fetched, shown,
and refused as it was shown.`,
		Example: "  holdpoint skill refuse files write_file --pin 5f0c…",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.settleTool(cmd, args[0], args[1], pin, "refuse", "Refused")
		},
	}
	cmd.Flags().StringVar(&pin, "pin", "", "of the definition that you looked at")
	return cmd
}

// settleTool accepts or refuses the present definition of a tool.
func (e *Env) settleTool(cmd *cobra.Command, skill, name, pin, verb, done string) error {
	path := "skills/" + client.Segment(skill) + "/tools"
	if pin == "" {
		text, err := e.get(cmd.Context(), path, nil)
		if err != nil {
			return err
		}
		found, err := decode[list[skillTool]](text)
		if err != nil {
			return err
		}
		for _, tool := range found.Items {
			if tool.Name == name {
				pin = tool.Pin
				e.showDefinition(tool)
			}
		}
		if pin == "" {
			return fmt.Errorf("the skill %s offers no tool %q", skill, name)
		}
	}
	text, err := e.post(cmd.Context(), path+"/"+client.Segment(name)+"/"+verb, map[string]string{"pin": pin})
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(text)
	}
	return write(e.Stdout, done+" "+cell(pin)+".\n")
}

func (e *Env) showDefinition(tool skillTool) {
	if len(tool.Accepted) > 0 && string(tool.Accepted) != "null" {
		e.notef("Accepted before:\n%s\nNow:", prettyJSON(tool.Accepted))
	}
	e.notef("%s", prettyJSON(tool.Definition))
}

func newSkillProbeCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "probe SKILL", Short: "Connect to a skill's server afresh, step by step",
		Example: "  holdpoint skill probe files",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "skills/"+client.Segment(args[0])+"/probe", nil)
			if err != nil {
				return err
			}
			return e.printProbe(text)
		},
	}
}

// probe is what came of connecting to a skill's server.
type probe struct {
	OK    bool `json:"ok"`
	Steps []struct {
		Name   string  `json:"name"`
		Detail string  `json:"detail"`
		Took   string  `json:"took"`
		Error  *string `json:"error"`
	} `json:"steps"`
}

func (e *Env) printProbe(text json.RawMessage) error {
	found, err := decode[probe](text)
	if err != nil {
		return err
	}
	if e.json {
		err = e.printJSON(text)
	} else {
		var rows [][]string
		for _, s := range found.Steps {
			state, detail := "ok", s.Detail
			if s.Error != nil {
				state, detail = "fail", *s.Error
			}
			rows = append(rows, []string{state, s.Name, s.Took, detail})
		}
		err = e.table([]string{"STATE", "STEP", "TOOK", "DETAIL"}, rows)
	}
	if err == nil && !found.OK {
		err = &ExitError{Code: ExitFailure}
	}
	return err
}
