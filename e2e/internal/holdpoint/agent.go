package holdpoint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// Agent calls the MCP endpoint of an agent. It uses the plainest form of the protocol: one POST and one connection for each request.
type Agent struct {
	URL    string // of the server
	Name   string
	Key    string
	Header http.Header // added to each request
}

// Answer is the answer to a request.
type Answer struct {
	Raw    json.RawMessage // the result, byte for byte
	Result Result
	Error  *RPCError // instead of a result
}

// Result holds the members of a tool result that tests read.
type Result struct {
	Content           []json.RawMessage          `json:"content"`
	StructuredContent json.RawMessage            `json:"structuredContent"`
	IsError           bool                       `json:"isError"`
	Meta              map[string]json.RawMessage `json:"_meta"`
}

// RPCError is a JSON-RPC error.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// CallMeta describes the call in the metadata of a result.
type CallMeta struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Code     string `json:"code"`
	Effect   string `json:"effect"`
	Attached bool   `json:"attached"`
}

// Call returns the metadata of the call. It is zero if the answer has none.
func (a Answer) Call() CallMeta {
	var meta CallMeta
	if raw, ok := a.Result.Meta["dev.holdpoint/call"]; ok {
		_ = json.Unmarshal(raw, &meta) // unreadable metadata count as none
	}
	return meta
}

// Pending reports whether the call has not ended yet.
func (a Answer) Pending() bool { return a.Call().Code == "pending" }

// Text returns the first content if it is text.
func (a Answer) Text() string {
	var text struct {
		Text string `json:"text"`
	}
	if len(a.Result.Content) > 0 {
		_ = json.Unmarshal(a.Result.Content[0], &text) // another kind has no text
	}
	return text.Text
}

// agentClient uses a new connection for each request, so that a broken one does not affect the next.
var agentClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// CallTool calls a tool and waits for the answer. It sends the arguments byte for byte.
func (a Agent) CallTool(ctx context.Context, tool, arguments string) (Answer, error) {
	return a.CallToolWith(ctx, tool, arguments, "{}")
}

// CallToolWith is CallTool with _meta.
func (a Agent) CallToolWith(ctx context.Context, tool, arguments, meta string) (Answer, error) {
	return a.Request(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":%s}`, tool, arguments, meta))
}

// Await calls holdpoint_await.
func (a Agent) Await(ctx context.Context, callID string) (Answer, error) {
	return a.CallTool(ctx, "holdpoint_await", fmt.Sprintf(`{"call_id":%q}`, callID))
}

// Request sends one request.
func (a Agent) Request(ctx context.Context, method, params string) (Answer, error) {
	answer, _, err := Post(ctx, a.endpointURL(), a.requestHeader(), method, params)
	return answer, err
}

// CallAndLeave makes a call and disconnects when its response is held open. A response that is not held is an error.
func (a Agent) CallAndLeave(ctx context.Context, tool, arguments string) error {
	response, err := sendCall(ctx, a.endpointURL(), a.requestHeader(), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
		return errors.Join(fmt.Errorf("the call is not held open: %s, %s: %s", response.Status, got, body), err)
	}
	return nil
}

func (a Agent) endpointURL() string { return a.URL + "/agents/" + a.Name + "/mcp" }

func (a Agent) requestHeader() http.Header {
	header := http.Header{"Authorization": {"Bearer " + a.Key}}
	maps.Copy(header, a.Header)
	return header
}

// Post sends one request to an MCP server over HTTP. It also returns the headers of the response.
func Post(ctx context.Context, url string, header http.Header, method, params string) (Answer, http.Header, error) {
	response, err := sendCall(ctx, url, header, method, params)
	if err != nil {
		return Answer{}, nil, err
	}
	defer response.Body.Close()
	message, err := readMessage(response)
	if err != nil {
		return Answer{}, response.Header, err
	}
	// A client that disconnects before the end of the response may seem to have missed the answer.
	_, _ = io.Copy(io.Discard, response.Body) // the answer is complete
	answer, err := parseAnswer(message)
	return answer, response.Header, err
}

// Notify sends a notification.
func Notify(ctx context.Context, url string, header http.Header, method string) error {
	response, err := sendMessage(ctx, url, header, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// sendCall sends a request. It returns when the response begins.
func sendCall(ctx context.Context, url string, header http.Header, method, params string) (*http.Response, error) {
	return sendMessage(ctx, url, header, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
}

func sendMessage(ctx context.Context, url string, header http.Header, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := agentClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		defer response.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, &RefusedError{response.StatusCode, string(said)}
	}
	return response, nil
}

// RefusedError is an HTTP status other than 200.
type RefusedError struct {
	Status int
	Said   string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Said) }

// errCut means that the response ended before its answer.
var errCut = errors.New("the response ended without an answer")

// readMessage returns the answer in a response and skips notifications before it.
func readMessage(response *http.Response) ([]byte, error) {
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return io.ReadAll(response.Body)
	}
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && err == nil {
			data = bytes.TrimSpace(data)
			if isAnswer(data) {
				return data, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCut, err)
		}
	}
}

func isAnswer(data []byte) bool {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	return json.Unmarshal(data, &message) == nil && message.ID != nil && message.Method == ""
}

func parseAnswer(message []byte) (Answer, error) {
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if err := json.Unmarshal(message, &reply); err != nil {
		return Answer{}, fmt.Errorf("read answer %.200s: %w", message, err)
	}
	answer := Answer{Raw: reply.Result, Error: reply.Error}
	if reply.Error != nil {
		return answer, nil
	}
	if err := json.Unmarshal(reply.Result, &answer.Result); err != nil {
		return answer, fmt.Errorf("read result %.200s: %w", reply.Result, err)
	}
	return answer, nil
}
