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

// Agent is an agent at its MCP endpoint. It speaks the plainest form of the protocol,
// one POST a request, over a connection of its own for each.
type Agent struct {
	URL    string // of the server
	Name   string
	Key    string
	Header http.Header // more of them
}

// Answer is what came back for a request.
type Answer struct {
	Raw    json.RawMessage // the result, byte for byte
	Result Result
	Error  *RPCError // instead of a result
}

// Result is the result of a tool call, as far as tests look.
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

// CallMeta is what a result says of its call.
type CallMeta struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Code     string `json:"code"`
	Effect   string `json:"effect"`
	Attached bool   `json:"attached"`
}

// Call is what the answer says of the call; zero when it says nothing.
func (a Answer) Call() CallMeta {
	var meta CallMeta
	if raw, ok := a.Result.Meta["dev.holdpoint/call"]; ok {
		_ = json.Unmarshal(raw, &meta) // what cannot be read says nothing
	}
	return meta
}

// Pending reports whether the answer is that the call is still on its way.
func (a Answer) Pending() bool { return a.Call().Code == "pending" }

// Text is the first content, if it is text.
func (a Answer) Text() string {
	var text struct {
		Text string `json:"text"`
	}
	if len(a.Result.Content) > 0 {
		_ = json.Unmarshal(a.Result.Content[0], &text) // another kind has no text
	}
	return text.Text
}

// A connection for each request: what broke once must not break the next.
var agentClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// CallTool calls a tool and waits for the answer; the arguments go out byte for byte.
func (a Agent) CallTool(ctx context.Context, tool, arguments string) (Answer, error) {
	return a.CallToolWith(ctx, tool, arguments, "{}")
}

// CallToolWith also sends _meta.
func (a Agent) CallToolWith(ctx context.Context, tool, arguments, meta string) (Answer, error) {
	return a.Request(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":%s}`, tool, arguments, meta))
}

// Await calls holdpoint_await.
func (a Agent) Await(ctx context.Context, callID string) (Answer, error) {
	return a.CallTool(ctx, "holdpoint_await", fmt.Sprintf(`{"call_id":%q}`, callID))
}

// Request sends one request.
func (a Agent) Request(ctx context.Context, method, params string) (Answer, error) {
	answer, _, err := Post(ctx, a.endpoint(), a.header(), method, params)
	return answer, err
}

// CallAndLeave makes a call and leaves when the response begins, without its answer.
func (a Agent) CallAndLeave(ctx context.Context, tool, arguments string) error {
	response, err := open(ctx, a.endpoint(), a.header(), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (a Agent) endpoint() string { return a.URL + "/agents/" + a.Name + "/mcp" }

func (a Agent) header() http.Header {
	header := http.Header{"Authorization": {"Bearer " + a.Key}}
	maps.Copy(header, a.Header)
	return header
}

// Post sends one request to any MCP server over HTTP, and also returns the headers of
// the response.
func Post(ctx context.Context, url string, header http.Header, method, params string) (Answer, http.Header, error) {
	response, err := open(ctx, url, header, method, params)
	if err != nil {
		return Answer{}, nil, err
	}
	defer response.Body.Close()
	message, err := readMessage(response)
	if err != nil {
		return Answer{}, response.Header, err
	}
	// A client that leaves before the response has ended may seem to have missed it.
	_, _ = io.Copy(io.Discard, response.Body) // the answer is there, whatever comes after it
	answer, err := parseAnswer(message)
	return answer, response.Header, err
}

// Notify sends a notification.
func Notify(ctx context.Context, url string, header http.Header, method string) error {
	response, err := send(ctx, url, header, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// open sends a request and returns when the response begins.
func open(ctx context.Context, url string, header http.Header, method, params string) (*http.Response, error) {
	return send(ctx, url, header, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
}

func send(ctx context.Context, url string, header http.Header, body string) (*http.Response, error) {
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

// errCut: the response ended before its answer.
var errCut = errors.New("the response ended without an answer")

// readMessage returns the response's answer; notifications before it are passed over.
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
