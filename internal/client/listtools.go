package client

import (
	"context"
	"encoding/json"
	"fmt"
)

// Tools is the list of an agent's tools.
type Tools struct {
	Items    []json.RawMessage // definitions, byte for byte
	Problems []SkillProblem
}

const (
	metaProblems = "dev.holdpoint/problems"
	maxPages     = 1000
)

// Tools lists an agent's tools, all pages of them.
func (c *Client) Tools(ctx context.Context, agent string) (Tools, error) {
	all := Tools{Items: []json.RawMessage{}}
	cursor := ""
	for range maxPages {
		r := request{agent: agent, method: "tools/list"}
		if cursor != "" {
			text, err := json.Marshal(cursor)
			if err != nil {
				return all, fmt.Errorf("encode request: %w", err)
			}
			r.params = []member{{"cursor", text}}
		}
		found, err := c.sendRPC(ctx, r)
		if err != nil {
			return all, fmt.Errorf("list tools of %s: %w", agent, err)
		}
		if found.fault != nil {
			return all, fmt.Errorf("list tools of %s: %w", agent, found.fault)
		}
		var page struct {
			Tools      []json.RawMessage          `json:"tools"`
			NextCursor string                     `json:"nextCursor"`
			Meta       map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(found.result, &page); err != nil {
			return all, fmt.Errorf("list tools of %s: understand the answer: %w", agent, err)
		}
		all.Items = append(all.Items, page.Tools...)
		if text, ok := page.Meta[metaProblems]; ok && all.Problems == nil {
			if err := json.Unmarshal(text, &all.Problems); err != nil {
				return all, fmt.Errorf("list tools of %s: understand its problems: %w", agent, err)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
	return all, fmt.Errorf("list tools of %s: more than %d pages", agent, maxPages)
}
