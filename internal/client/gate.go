package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// GateRequest asks whether a call may be executed that the caller executes itself.
type GateRequest struct {
	Skill     string          `json:"skill"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// RequestID names the call among those of the caller. The same request is answered the same way again. Empty: it has no name.
	RequestID string      `json:"request_id,omitempty"`
	Wait      int         `json:"wait,omitempty"` // seconds, at most [MaxGateWait]
	Context   GateContext `json:"context"`
}

// GateContext says where a call comes from. Reviewers see it.
type GateContext struct {
	Host      string `json:"host,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// The approval is bound to Cwd, Paths and File.
	Cwd      string    `json:"cwd,omitempty"`
	Paths    []string  `json:"paths,omitempty"` // the files and folders that the call names, with all links followed
	File     *GateFile `json:"file,omitempty"`  // that the call would change
	Subagent string    `json:"subagent,omitempty"`
	Version  string    `json:"version,omitempty"` // of the host
	Guard    string    `json:"guard,omitempty"`   // the id of the guard that asks
}

// GateFile is a file before a call changes it.
type GateFile struct {
	Path   string  `json:"path"`
	Exists bool    `json:"exists"`
	Size   int64   `json:"size"`
	SHA256 string  `json:"sha256,omitempty"` // in hexadecimal
	Text   *string `json:"text,omitempty"`   // the whole content; nil: it is not sent
}

// MaxGateWait is the longest wait of one request, in seconds.
const MaxGateWait = 55

// GateDecision says whether the caller may execute the call.
type GateDecision string

// The decisions. Only [GateAllow] allows the call; an unknown decision does not.
const (
	GateAllow   GateDecision = "allow"
	GateDeny    GateDecision = "deny"
	GatePending GateDecision = "pending"
)

// GateAnswer is the answer about a gate-only call.
type GateAnswer struct {
	ID       string       `json:"id"`
	Decision GateDecision `json:"decision"`
	Code     string       `json:"code"`
	Message  string       `json:"message"` // for the model
	// Deadline is until when a pending call may be decided.
	Deadline *time.Time `json:"deadline,omitempty"`
	// ReleasedUntil is until when an allowed call may be started.
	ReleasedUntil *time.Time `json:"released_until,omitempty"`
}

// The outcomes of a released call.
const (
	GateSucceeded = "succeeded"
	GateFailed    = "failed"
	GateNotRun    = "not_run"
)

// GateOutcome is the outcome of a released call, as its caller reports it.
type GateOutcome struct {
	RequestID string `json:"request_id,omitempty"`
	Status    string `json:"status"` // GateSucceeded, GateFailed or GateNotRun
	Text      string `json:"text,omitempty"`
}

func gatePath(agent string, rest ...string) string {
	parts := []string{"/agents", Segment(agent), "gate"}
	for _, segment := range rest {
		parts = append(parts, Segment(segment))
	}
	return strings.Join(parts, "/")
}

// Gate asks whether the agent may execute a call, and waits at most as long as the request says. The client's Timeout must be longer. A request
// the server refused is a [*Problem]. The caller must not execute the call after an error.
func (c *Client) Gate(ctx context.Context, agent string, request GateRequest) (GateAnswer, error) {
	return Value(doReply[GateAnswer](ctx, c, http.MethodPost, gatePath(agent), nil, request))
}

// AwaitGate asks again about a call, and waits at most some seconds for a decision.
func (c *Client) AwaitGate(ctx context.Context, agent, id, requestID string, wait int) (GateAnswer, error) {
	query := parameters{}
	query.addParameter("request_id", requestID)
	query.addParameter("wait", strconv.Itoa(wait))
	return Value(doReply[GateAnswer](ctx, c, http.MethodGet, gatePath(agent, id), query, nil))
}

// ReportGate reports the outcome of a released call. It may be repeated.
func (c *Client) ReportGate(ctx context.Context, agent, id string, outcome GateOutcome) error {
	_, err := c.doRequest(ctx, http.MethodPost, gatePath(agent, id, "outcome"), nil, outcome)
	return err
}

// LeaveGate reports that the caller no longer waits for a call. The call stays parked, and a repeat attaches to it.
func (c *Client) LeaveGate(ctx context.Context, agent, id, requestID string) error {
	body := struct {
		RequestID string `json:"request_id,omitempty"`
	}{requestID}
	_, err := c.doRequest(ctx, http.MethodPost, gatePath(agent, id, "leave"), nil, body)
	return err
}

// doReply sends a request and returns its answer.
func doReply[T any](ctx context.Context, c *Client, method, path string, query parameters, body any) (Reply[T], error) {
	text, err := c.doRequest(ctx, method, path, query, body)
	return text, err
}
