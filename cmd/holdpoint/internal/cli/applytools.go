package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/client"
)

// namedTools are the names of tools in a spec.
type namedTools struct {
	Skills []struct {
		Name  string                     `json:"name"`
		Tools map[string]json.RawMessage `json:"tools"`
	} `json:"skills"`
	Agents []struct {
		Skills []struct {
			Skill string   `json:"skill"`
			Tools []string `json:"tools"`
		} `json:"skills"`
	} `json:"agents"`
}

// warnUnknownTools writes a warning for each name of a tool that its skill does not have. It is no error: a skill's server may drop a tool, or
// offer it later.
func (e *Env) warnUnknownTools(ctx context.Context, api *client.Client, declared *manifest.Manifest) {
	var named namedTools
	if json.Unmarshal(declared.Spec, &named) != nil {
		return // the server reported it
	}
	known := map[string][]string{}
	warn := func(skill, tool, path string) {
		tools, asked := known[skill]
		if !asked {
			tools = listKnownTools(ctx, api, skill)
			known[skill] = tools
		}
		if len(tools) == 0 || slices.Contains(tools, tool) {
			return
		}
		text := fmt.Sprintf("skill %s has no tool %q", skill, tool)
		if similar := findSimilar(tool, tools); len(similar) > 0 {
			text += ": did you mean " + strings.Join(similar, " or ") + "?"
		}
		e.notef("Warning: %s", declared.Locate(path, text))
	}
	for i, s := range named.Skills {
		for _, tool := range slices.Sorted(maps.Keys(s.Tools)) {
			warn(s.Name, tool, fmt.Sprintf("skills[%d].tools.%s", i, tool))
		}
	}
	for i, a := range named.Agents {
		for j, s := range a.Skills {
			for k, tool := range s.Tools {
				warn(s.Skill, tool, fmt.Sprintf("agents[%d].skills[%d].tools[%d]", i, j, k))
			}
		}
	}
}

// listKnownTools returns the tools that a skill's server listed. It is empty if the skill was not listed yet, or if its callers name the tools.
func listKnownTools(ctx context.Context, api *client.Client, name string) []string {
	skill, err := client.Value(api.GetSkill(ctx, name))
	if err != nil || skill.Transport == "gate" {
		return nil // a dry run does not make the skill
	}
	listed, err := client.Value(api.ListSkillTools(ctx, name, client.ListSkillToolsQuery{}))
	if err != nil {
		return nil
	}
	names := make([]string, len(listed.Items))
	for i, tool := range listed.Items {
		names[i] = tool.Name
	}
	return names
}

// findSimilar returns the known names that a misspelled one may mean.
func findSimilar(name string, known []string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, one := range known {
		names.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	return names.SuggestionsFor(name)
}
