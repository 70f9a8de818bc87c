package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newAgentShowCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "show AGENT", Short: "Show an agent, without its secrets",
		Example: "  holdpoint agent show billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.show(cmd, "agents/"+client.Segment(args[0]))
		},
	}
}

func newAgentDeleteCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete AGENT", Short: "Delete an agent; its keys stop working",
		Long: `Delete an agent. Its keys stop working at once, its conversations end, and calls of it that wait are
denied when they are approved. What was recorded of its calls stays.`,
		Example: "  holdpoint agent delete billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "agents/"+client.Segment(args[0]), "Deleted.")
		},
	}
}

func newAgentAssignCmd(e *Env) *cobra.Command {
	var tools []string
	var prefix string
	cmd := &cobra.Command{
		Use: "assign AGENT SKILL", Short: "Let an agent use a skill, or change how",
		Long: `Let an agent use a skill: all its tools, or only those that --tools names. What was said before of
this agent and skill is replaced.`,
		Example: `  holdpoint agent assign billing files
  holdpoint agent assign billing everything --tools echo,get-sum --prefix ""`,
		Args: usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"agent": args[0], "skill": args[1]}
			if cmd.Flags().Changed("tools") {
				body["tools"] = tools
			}
			if cmd.Flags().Changed("prefix") {
				body["prefix"] = prefix
			}
			text, err := e.post(cmd.Context(), "assignments", body)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, cell(args[0]+" may use "+args[1])+".\n")
		},
	}
	cmd.Flags().StringSliceVar(&tools, "tools", nil, "only these, with commas between; all of them when left out")
	cmd.Flags().StringVar(&prefix, "prefix", "", `of its tools' names (default the skill's name); "" is none`)
	return cmd
}

func newAgentUnassignCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "unassign AGENT SKILL", Short: "Take a skill away from an agent",
		Example: "  holdpoint agent unassign billing files",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "assignments/"+client.Segment(args[0])+"/"+client.Segment(args[1]), "Taken away.")
		},
	}
}
