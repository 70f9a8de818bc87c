package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

func newToolsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "tools AGENT", Short: "List the tools that an agent sees",
		Long: `List the tools that an agent sees, as its MCP endpoint lists them. The credential is the agent's
key, or the token of a person who may act as it. Skills that could not be listed are told on
the standard error. Operators see with "holdpoint agent tools" what an agent would be offered.`,
		Example: "  holdpoint tools billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.tools(cmd, args[0]) },
	}
}

func (e *Env) tools(cmd *cobra.Command, agent string) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	found, err := api.Tools(cmd.Context(), agent)
	if err != nil {
		return err
	}
	for _, p := range found.Problems {
		e.notef("The tools of %s are missing (%s): %s", p.Skill, p.Kind, p.Error)
	}
	if e.json {
		text, err := encoded(map[string]any{"items": found.Items})
		if err != nil {
			return err
		}
		return e.printJSON(text)
	}
	rows := make([][]string, 0, len(found.Items))
	for _, item := range found.Items {
		var definition struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		}
		if err := json.Unmarshal(item, &definition); err != nil {
			return err
		}
		rows = append(rows, []string{definition.Name, firstLine(definition.Description)})
	}
	return e.table([]string{"NAME", "DESCRIPTION"}, rows)
}
