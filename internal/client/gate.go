package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// GateRequest asks whether the caller may execute a call itself.
type GateRequest struct {
	Skill     string          `json:"skill"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// RequestID names the caller's call. A request that is sent again with the same one gets the same answer.
	RequestID string `json:"request_id,omitempty"`
	// Wait is how many seconds the server may take before it answers that the call is pending.
	Wait    int         `json:"wait"`
	Context GateContext `json:"context"`
}

// GateContext says where a call was made.
type GateContext struct {
	Host      string `json:"host,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	Cwd       string `json:"cwd,omitempty"`
	Subagent  string `json:"subagent,omitempty"`
	Version   string `json:"version,omitempty"`
}

// The decisions of a [GateAnswer].
const (
	GateAllow   = "allow"
	GateDeny    = "deny"
	GatePending = "pending"
)

// GateAnswer is the answer of the gate.
type GateAnswer struct {
	ID       string    `json:"id"`
	Decision string    `json:"decision"`
	Code     string    `json:"code"`
	Message  string    `json:"message"` // for the model
	Deadline time.Time `json:"deadline"`
}

// GateOutcome is what became of a call that was allowed.
type GateOutcome struct {
	RequestID string `json:"request_id,omitempty"`
	Status    string `json:"status"` // succeeded, failed or not_run
	Text      string `json:"text,omitempty"`
}

// AskGate asks whether the caller may execute a call.
func (c *Client) AskGate(ctx context.Context, agent string, request GateRequest) (GateAnswer, error) {
	return c.exchangeGate(ctx, http.MethodPost, gatePath(agent), nil, request)
}

// AwaitGate asks again about a call that is pending. It takes at most wait seconds.
func (c *Client) AwaitGate(ctx context.Context, agent, id, requestID string, wait int64) (GateAnswer, error) {
	query := parameters{}
	query.addParameter("wait", &wait)
	query.addParameter("request_id", requestID)
	answer, err := c.exchangeGate(ctx, http.MethodGet, gatePath(agent)+"/"+Segment(id), query, nil)
	if err == nil && answer.ID != id {
		return GateAnswer{}, fmt.Errorf("understand the server's answer: it is about call %s, must be about %s", answer.ID, id)
	}
	return answer, err
}

// ReportGate reports what became of a call.
func (c *Client) ReportGate(ctx context.Context, agent, id string, outcome GateOutcome) error {
	_, err := c.doRequest(ctx, http.MethodPost, gatePath(agent)+"/"+Segment(id)+"/outcome", nil, outcome)
	return err
}

// LeaveGate reports that the caller of a pending call is gone. The call stays pending.
func (c *Client) LeaveGate(ctx context.Context, agent, id, requestID string) error {
	_, err := c.doRequest(ctx, http.MethodPost, gatePath(agent)+"/"+Segment(id)+"/leave", nil, map[string]string{"request_id": requestID})
	return err
}

func gatePath(agent string) string { return "/agents/" + Segment(agent) + "/gate" }

// exchangeGate sends a request to the gate. Only a complete answer counts: anything else is an error, so that no other server's answer lets a
// call pass.
func (c *Client) exchangeGate(ctx context.Context, method, path string, query parameters, body any) (GateAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var answer GateAnswer
	var content []byte
	if body != nil {
		var err error
		if content, err = encodeBody(body); err != nil {
			return answer, fmt.Errorf("encode request: %w", err)
		}
	}
	request, err := c.newRequest(ctx, method, path, query, content)
	if err != nil {
		return answer, err
	}
	request.Header.Set("Accept", "application/json")
	err = c.exchange(request, func(response *http.Response) error {
		text, err := c.readBody(response)
		if err != nil {
			return err
		}
		media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		if response.StatusCode != http.StatusOK || media != "application/json" {
			return fmt.Errorf("understand the server's answer: HTTP %d with %q: must be 200 with JSON", response.StatusCode, media)
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return fmt.Errorf("understand the server's answer: %w", err)
		}
		return checkGateAnswer(answer)
	})
	if err != nil {
		return GateAnswer{}, err
	}
	return answer, nil
}

func checkGateAnswer(answer GateAnswer) error {
	switch {
	case strings.TrimSpace(answer.ID) == "":
		return errors.New("understand the server's answer: id: must not be empty")
	case answer.Decision != GateAllow && answer.Decision != GateDeny && answer.Decision != GatePending:
		return fmt.Errorf("understand the server's answer: decision %q: must be allow, deny or pending", answer.Decision)
	}
	return nil
}
