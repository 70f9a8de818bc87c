package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// GuardReport says how a guard is on its machine. The first one registers the guard.
type GuardReport struct {
	WatchKey string   `json:"watch_key"` // a secret of the machine, the same in each report
	Host     string   `json:"host"`
	Machine  string   `json:"machine"`
	Scope    string   `json:"scope"` // machine or user
	Version  string   `json:"version"`
	Files    []string `json:"files"`
	// Every is the time until the watcher's next report, in seconds. Zero: the guard was installed just now.
	Every    int      `json:"every"`
	Problems []string `json:"problems"` // empty: it holds
	Removed  bool     `json:"removed"`
}

// GuardedCall is a call that a coding agent ran, and of which its hook knows no release.
type GuardedCall struct {
	Skill     string          `json:"skill"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

func guardPath(agent, id string) string {
	return "/agents/" + Segment(agent) + "/guards/" + Segment(id)
}

// ReportGuard reports how a guard of the agent is.
func (c *Client) ReportGuard(ctx context.Context, agent, id string, report GuardReport) error {
	_, err := c.doRequest(ctx, http.MethodPut, guardPath(agent, id), nil, report)
	return err
}

// ReportRan reports a call that ran, and returns whether it was released. Otherwise operators are alerted.
func (c *Client) ReportRan(ctx context.Context, agent, id string, ran GuardedCall) (released bool, err error) {
	answer, err := Value(doReply[struct {
		Released bool `json:"released"`
	}](ctx, c, http.MethodPost, guardPath(agent, id)+"/ran", nil, ran))
	return answer.Released, err
}
