package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// The client uses the endpoint's simplest form: one JSON-RPC request a POST, no session, no protocol version, and no
// headers that repeat arguments.
const (
	metaClient      = "io.modelcontextprotocol/clientInfo"
	metaCall        = "dev.holdpoint/call"
	metaIdempotency = "dev.holdpoint/idempotency_key"
	headerCall      = "Holdpoint-Call"
)

// RPCError is a JSON-RPC error.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (JSON-RPC error %d)", e.Message, e.Code) }

// LostError is a connection that broke before an answer was complete.
type LostError struct {
	Sent bool // whether the server may have received the request
	Err  error
}

func (e *LostError) Error() string { return fmt.Sprintf("connection lost: %v", e.Err) }
func (e *LostError) Unwrap() error { return e.Err }

// answer is the answer to one JSON-RPC request.
type answer struct {
	callID string // from the header Holdpoint-Call, also if the answer itself is missing
	result json.RawMessage
	fault  *RPCError
}

// request is one JSON-RPC request to an agent's endpoint.
type request struct {
	agent  string
	method string
	params []member
	meta   map[string]any

	// begun is called with the call's id as soon as it is known, and with whether the response is held open.
	begun func(callID string, held bool)
}

// member is one member of an object. Its value is sent unchanged.
type member struct {
	name  string
	value json.RawMessage
}

// encodeBody encodes the request. Values are sent byte for byte.
func (r request) encodeBody(version string) ([]byte, error) {
	meta := map[string]any{metaClient: map[string]string{"name": "holdpoint", "version": version}}
	maps.Copy(meta, r.meta)
	metaText, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":%s`, r.method, metaText)
	for _, m := range r.params {
		if !json.Valid(m.value) {
			return nil, fmt.Errorf("encode request: %s is not JSON", m.name)
		}
		fmt.Fprintf(&b, `,%q:%s`, m.name, m.value)
	}
	b.WriteString("}}")
	return b.Bytes(), nil
}

// sendRPC sends a request once and reads its answer. The error is a *Problem if the server refused it, a *LostError if
// no answer came, or permanent.
func (c *Client) sendRPC(ctx context.Context, r request) (answer, error) {
	ctx, watch := c.watchSilence(ctx)
	defer watch.stop()

	body, err := r.encodeBody(c.Version)
	if err != nil {
		return answer{}, err
	}
	response, err := c.postOnce(ctx, c.endpointOf(r.agent), body, func(h http.Header) {
		h.Set("Accept", "text/event-stream") // a held response sends keep-alives
	})
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	found, err := r.readAnswer(response, watch)
	if errors.Is(err, errCut) {
		err = &LostError{Sent: true, Err: causeOf(ctx, err)}
	}
	return found, err
}

func (c *Client) endpointOf(agent string) string {
	return c.base + "/agents/" + Segment(agent) + "/mcp"
}

// postOnce posts a JSON-RPC message once. If there is no response, the error is a *[LostError].
func (c *Client) postOnce(ctx context.Context, endpoint string, body []byte, setHeaders func(http.Header)) (*http.Response, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.GetBody = nil // the transport does not send it twice on its own
	request.Header.Set("Content-Type", "application/json")
	c.authorize(request)
	setHeaders(request.Header)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, &LostError{Sent: sent.Load(), Err: causeOf(ctx, c.unreachableError(err))}
	}
	return response, nil
}

// openStream opens a stream of events after the last one that was received.
func (c *Client) openStream(ctx context.Context, address, last string, setHeaders func(http.Header)) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	c.authorize(request)
	setHeaders(request.Header)
	request.Header.Set("Accept", "text/event-stream")
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, &LostError{Err: causeOf(ctx, c.unreachableError(err))}
	}
	return response, nil
}

func causeOf(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// errCut: the response ended before its answer did.
var errCut = errors.New("the response ended without an answer")

func (r request) readAnswer(response *http.Response, watch *watch) (answer, error) {
	found := answer{callID: response.Header.Get(headerCall)}
	stream := isStream(response)
	if found.callID != "" && r.begun != nil {
		r.begun(found.callID, stream)
	}
	content := watch.watchReader(response.Body)
	var message []byte
	var err error
	if stream {
		message, err = readEvents(content)
	} else if message, err = readAll(content); err != nil {
		err = fmt.Errorf("%w: %w", errCut, err)
	}
	if err != nil {
		return found, err
	}
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	decoded := json.Unmarshal(message, &reply) == nil
	switch {
	case decoded && reply.Error != nil:
		found.fault = reply.Error
	case decoded && reply.Result != nil:
		found.result = reply.Result
	case response.StatusCode >= http.StatusMultipleChoices:
		return found, readProblem(response, message)
	default:
		return found, fmt.Errorf("understand answer of %s: it is neither a result nor an error", response.Request.URL.Host)
	}
	return found, nil
}

// watch ends a request when nothing was received for too long. The time to process it does not count.
type watch struct {
	timer   *time.Timer
	silence time.Duration
	cancel  context.CancelCauseFunc
}

// watchSilence returns the context of a watched request.
func (c *Client) watchSilence(ctx context.Context) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watch{silence: c.Silence, cancel: cancel, timer: time.AfterFunc(c.Silence, func() {
		cancel(fmt.Errorf("nothing was heard for %s", c.Silence))
	})}
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *watch) watchReader(r io.Reader) io.Reader { return &watchedReader{r, w} }

type watchedReader struct {
	io.Reader
	watch *watch
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.watch.timer.Reset(r.watch.silence)
	n, err := r.Reader.Read(p)
	r.watch.timer.Stop()
	return n, err
}
