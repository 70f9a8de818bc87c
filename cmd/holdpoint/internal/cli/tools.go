package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newToolsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "tools AGENT", Short: "List the tools that an agent sees",
		Long: `List the tools that an agent sees, as its MCP endpoint lists them. Use the agent's key, or the token of
a person who may act as it. Skills whose tools are missing are noted on the standard error. For
operators, "holdpoint agent tools" lists what an agent would be offered.`,
		Example: "  holdpoint tools billing",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			found, err := api.Tools(ctx, args[0])
			if err != nil {
				return err
			}
			e.noteProblems(found.Problems)
			if e.json {
				return e.printEncoded(map[string]any{"items": found.Items})
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
			return e.printTable([]string{"NAME", "DESCRIPTION"}, rows)
		}),
	}
}
