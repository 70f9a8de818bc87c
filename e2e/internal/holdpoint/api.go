package holdpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// API calls the JSON API with one credential.
type API struct {
	URL   string
	Token string
}

// Call holds the members of a call that tests read.
type Call struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	Code       string          `json:"code"`
	Failure    string          `json:"failure"`
	Effect     string          `json:"effect"`
	Message    string          `json:"message"`
	Agent      string          `json:"agent"`
	Skill      string          `json:"skill"`
	Tool       string          `json:"tool"`
	Gated      bool            `json:"gated"`
	Arguments  json.RawMessage `json:"arguments"`
	Result     json.RawMessage `json:"result"`
	FinishedAt *time.Time      `json:"finished_at"`
	Late       json.RawMessage `json:"late"`
	Resolution *struct {
		Outcome string `json:"outcome"`
		Note    string `json:"note"`
	} `json:"resolution"`
}

// Final reports whether the call has ended.
func (c Call) Final() bool {
	switch c.Status {
	case "needs_connection", "parked", "approved", "executing":
		return false
	}
	return true
}

// Approval is an approval of the API.
type Approval struct {
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Status    string          `json:"status"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Digest    string          `json:"digest"`
	Deadline  time.Time       `json:"deadline"`
	Decision  *Decision       `json:"decision"`
}

// Decision is a decision about an approval.
type Decision struct {
	By      string `json:"by"`
	Outcome string `json:"outcome"`
	Note    string `json:"note"`
}

// Event is an audit event.
type Event struct {
	ID      json.Number `json:"id"`
	Action  string      `json:"action"`
	Subject string      `json:"subject"`
}

// Problem is an error response.
type Problem struct {
	Status         int       `json:"status"`
	Code           string    `json:"code"`
	Detail         string    `json:"detail"`
	ApprovalStatus string    `json:"approval_status"`
	Decision       *Decision `json:"decision"`
}

func (p *Problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail) }

var apiClient = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// Do sends a request to a path below /api/v1 and decodes the response into out, unless out is nil. If the server refuses the request,
// the error is a *Problem.
func (a API) Do(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.URL+"/api/v1/"+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.Token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := apiClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		p := &Problem{}
		if err := json.Unmarshal(text, p); err != nil {
			p.Detail = string(text)
		}
		p.Status = response.StatusCode
		return p
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// Call returns a call.
func (a API) Call(ctx context.Context, id string) (Call, error) {
	var c Call
	err := a.Do(ctx, http.MethodGet, "calls/"+id, nil, &c)
	return c, err
}

// Approval returns an approval.
func (a API) Approval(ctx context.Context, id string) (Approval, error) {
	var found Approval
	err := a.Do(ctx, http.MethodGet, "approvals/"+id, nil, &found)
	return found, err
}

// Approve approves a call with the digest of the shown approval.
func (a API) Approve(ctx context.Context, shown Approval) error {
	return a.Do(ctx, http.MethodPost, "approvals/"+shown.ID+"/approve", map[string]string{"digest": shown.Digest}, nil)
}

// Reject rejects a call with the digest of the shown approval.
func (a API) Reject(ctx context.Context, shown Approval, reason string) error {
	return a.Do(ctx, http.MethodPost, "approvals/"+shown.ID+"/reject",
		map[string]string{"digest": shown.Digest, "reason": reason}, nil)
}

// Resolve records the outcome of a call whose outcome is unknown.
func (a API) Resolve(ctx context.Context, id, outcome, note string) error {
	return a.Do(ctx, http.MethodPost, "calls/"+id+"/resolve", map[string]string{"outcome": outcome, "note": note}, nil)
}

// List returns the items of all pages of a list.
func List[T any](ctx context.Context, a API, path, query string) ([]T, error) {
	var all []T
	cursor := ""
	for {
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		at := path + "?limit=200&" + query
		if cursor != "" {
			at += "&cursor=" + cursor
		}
		if err := a.Do(ctx, http.MethodGet, at, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
}
