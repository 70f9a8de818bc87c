package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// envelopeRoom is what a JSON-RPC answer may add to its result.
const envelopeRoom = 64 << 10

// httpExchange is one request over HTTP and its answer.
type httpExchange struct {
	peer    *httpPeer
	request *request
	id      int64

	caller  context.Context // the caller's; it decides how long to wait
	ctx     context.Context // the HTTP request's; it may outlive the caller's, to keep a connection
	cancel  context.CancelCauseFunc
	wire    *outbound.Wire
	sent    string      // the last Authorization
	release func() bool // unties ctx from caller
}

// exchange sends one request, as a POST of its own.
func (p *httpPeer) exchange(ctx context.Context, r *request) outcome {
	p.hearing(ctx, r.errand)
	defer p.asked.begin(r, p.agreed)()
	x := &httpExchange{peer: p, request: r, id: p.lastID.Add(1), caller: ctx}
	noteID(ctx, x.id)
	x.ctx, x.cancel = context.WithCancelCause(p.ctx)
	x.release = context.AfterFunc(ctx, func() { x.cancel(context.Cause(ctx)) })
	out := x.run()
	if p.auth != nil {
		skillauth.Hide(out.failure, skillauth.Token(x.sent))
	}
	return out
}

func (x *httpExchange) run() outcome {
	response, out := x.authorized()
	if response == nil {
		x.finish(nil)
		return out
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	switch {
	case response.StatusCode != http.StatusOK:
		out = x.refused(response)
	case media == "text/event-stream":
		return x.stream(response)
	default:
		out = x.body(response, media)
	}
	out = x.settle(out)
	x.finish(response)
	return out
}

// settle puts the end of the caller's time before an answer that says nothing:
// a server that sees its client leave may still have written one.
func (x *httpExchange) settle(out outcome) outcome {
	if f := out.failure; f == nil || f.Effect == tool.EffectNone || x.ctx.Err() == nil {
		return out
	}
	return failed(tool.Ended(x.ctx, tool.EffectPossible, x.request.what))
}

// finish frees what the request held. Its connection is kept if the answer was
// read to its end.
func (x *httpExchange) finish(response *http.Response) {
	if response != nil {
		_ = response.Body.Close()
	}
	x.release()
	x.cancel(nil)
}

// authorized sends the request with a token where one is needed, and once more with a
// better one where the server refuses the first: by 401 or 403 it says that it did not act.
func (x *httpExchange) authorized() (*http.Response, outcome) {
	for round := 1; ; round++ {
		r := x.build()
		signed, failure := x.peer.auth.sign(x.ctx, r)
		x.sent = r.Header.Get("Authorization")
		switch {
		case failure != nil:
			return nil, failed(failure)
		case x.peer.sessionID != "" && x.peer.auth.foreign(signed):
			out := failed(tool.BrokeOff(tool.EffectNone, nil, "%s: the skill was connected anew meanwhile", x.request.what))
			out.unsent, out.renew = true, true // the session is another account's
			return nil, out
		}
		response, out := x.post(r)
		if response == nil {
			return nil, out
		}
		again, failure := x.peer.auth.answered(x.ctx, r, x.request.method, response, signed, round)
		switch {
		case failure != nil:
			skillauth.FinishRefused(response)
			return nil, failed(failure)
		case !again:
			return response, out
		}
		skillauth.FinishRefused(response)
	}
}

// build makes the HTTP request.
func (x *httpExchange) build() *http.Request {
	p := x.peer
	body := x.request.encode(x.id, p.agreed.metaOf(x.request))
	return &http.Request{
		Method: http.MethodPost, URL: p.endpoint, Host: p.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: p.requestHeader(x.request),
		// No GetBody: with it, net/http sends a request again on its own.
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// post sends the request. Without a response it says what became of it.
func (x *httpExchange) post(r *http.Request) (*http.Response, outcome) {
	p := x.peer
	x.wire = &outbound.Wire{} // what an earlier round wrote was refused
	if confirm := x.request.confirm; confirm != nil {
		x.wire.Confirm = func() error { return confirm(x.ctx) }
		if err := confirm(x.ctx); err != nil { // over HTTP/2 this is the last moment
			return nil, failed(tool.NotConfirmed(err, x.request.what))
		}
	}
	r = r.WithContext(x.wire.Observe(x.ctx))
	response, err := p.transport.RoundTrip(r)
	if err == nil {
		return response, outcome{}
	}
	stopped := x.ctx.Err() != nil
	untouched := x.wire.Untouched(stopped)
	effect := tool.EffectPossible
	if untouched {
		effect = tool.EffectNone
	}
	switch {
	case x.wire.Refused() != nil:
		return nil, failed(tool.NotConfirmed(x.wire.Refused(), x.request.what))
	case stopped:
		if !untouched {
			p.sendCancelled(x.id)
		}
		return nil, failed(tool.Ended(x.ctx, effect, x.request.what))
	case !x.wire.Connected():
		return nil, failed(tool.BrokeOff(effect, err, "%s: connect to %s: %s", x.request.what, p.origin(), plain(err.Error(), 300)))
	case untouched:
		p.transport.CloseIdleConnections() // so that the next attempt dials
		out := failed(tool.BrokeOff(effect, err, "%s: the connection to %s closed before the request was sent", x.request.what, p.origin()))
		out.unsent = true
		return nil, out
	}
	return nil, failed(tool.BrokeOff(effect, err, "%s: the connection to %s broke before an answer came: %s", x.request.what, p.origin(), plain(err.Error(), 300)))
}

// requestHeader is the header of one request.
func (p *httpPeer) requestHeader(r *request) http.Header {
	header := maps.Clone(p.header)
	if r.errand != nil {
		for name, value := range r.errand.caller.Headers {
			header.Set(name, value)
		}
	}
	r.trace.Set(header)
	if !p.agreed.modern() {
		return header
	}
	header[headerMethod] = []string{r.method}
	if r.name == "" {
		return header
	}
	header[headerName] = []string{headerValue(r.name)}
	if definition := r.definition.definition; definition != nil {
		for _, b := range p.bindings(definition) {
			if value, ok := b.value(r.definition.arguments); ok {
				header.Set(headerParam+b.header, value)
			}
		}
	}
	return header
}

// bindings are read once for each definition.
func (p *httpPeer) bindings(definition *tool.Definition) []binding {
	if known, ok := p.headers.Load(definition.Pin()); ok {
		found, _ := known.([]binding)
		return found
	}
	found, err := bindings(definition.InputSchema)
	if err != nil { // such a tool was not listed
		found = nil
	}
	p.headers.Store(definition.Pin(), found)
	return found
}

// body reads an answer that is one JSON text.
func (x *httpExchange) body(response *http.Response, media string) outcome {
	data, err := readBounded(response.Body, response.ContentLength, x.request.limit+envelopeRoom)
	switch {
	case errors.Is(err, errTooLarge):
		return x.tooLarge(data)
	case err != nil:
		return x.broke(err)
	}
	e, err := parseEnvelope(data)
	if err != nil {
		return failed(protocolFailure(data, err, "%s: the server answered with something that is not MCP (%s): %s",
			x.request.what, plain(media, 100), plain(err.Error(), 200)))
	}
	if !x.isAnswer(e) {
		return failed(protocolFailure(data, nil, "%s: the server answered another request than the one it was sent", x.request.what))
	}
	return x.answered(e)
}

// isAnswer reports whether a message answers the request. An error without an
// id does: the server could not read which request it is about.
func (x *httpExchange) isAnswer(e envelope) bool {
	return e.answers(x.id) || (e.isError() && e.id == nil)
}

// answered is the outcome of an answer with our id.
func (x *httpExchange) answered(e envelope) outcome {
	switch {
	case e.isError():
		return failed(rpcFailure(e.err))
	case int64(len(e.result)) > x.request.limit:
		return x.tooLarge(e.result)
	}
	return outcome{result: e.result}
}

func (x *httpExchange) tooLarge(beginning []byte) outcome {
	return failed(protocolFailure(beginning, errTooLarge, "%s: the answer is larger than %d bytes", x.request.what, x.request.limit))
}

// broke is the outcome of an answer that ended in its middle.
func (x *httpExchange) broke(err error) outcome {
	if x.ctx.Err() != nil {
		x.peer.sendCancelled(x.id)
		return failed(tool.Ended(x.ctx, tool.EffectPossible, x.request.what))
	}
	return failed(tool.BrokeOff(tool.EffectPossible, err, "%s: the connection to %s broke in the middle of the answer: %s",
		x.request.what, x.peer.origin(), plain(err.Error(), 300)))
}

// borrow lends a reader's buffer for the time of one stream.
func (p *httpPeer) borrow(source io.Reader) (*bufio.Reader, func()) {
	reader, ok := p.readers.Get().(*bufio.Reader)
	if !ok {
		reader = bufio.NewReader(nil)
	}
	reader.Reset(source)
	return reader, func() {
		reader.Reset(nil)
		p.readers.Put(reader)
	}
}

// sendCancelled tells a server of sessions that nobody waits for an answer any
// more. (Since 2026-07-28 the end of the HTTP request says so.)
func (p *httpPeer) sendCancelled(id int64) {
	if p.agreed.modern() {
		return
	}
	p.sendLater(cancelled(id))
}

// sendLater posts a message that gets no answer. Few are sent at once; beyond
// that they are dropped, for a server that asks too much.
func (p *httpPeer) sendLater(message []byte) {
	select {
	case p.answers <- struct{}{}:
	default:
		return
	}
	started := p.tasks.run(func() {
		defer func() { <-p.answers }()
		p.sendNow(message, 2*time.Second)
	})
	if !started {
		<-p.answers
	}
}

// sendNow posts a message that gets no answer.
func (p *httpPeer) sendNow(message []byte, limit time.Duration) {
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL, bytes.NewReader(message))
	if err != nil {
		return
	}
	r.Header, r.Host = maps.Clone(p.header), p.host
	if signed, failure := p.auth.sign(ctx, r); failure != nil || p.sessionID != "" && p.auth.foreign(signed) {
		return
	}
	response, err := p.transport.RoundTrip(r)
	if err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, response.Body, 4096)
	_ = response.Body.Close()
}

// sendAnswer posts the answer to a question. It does not end with the call,
// which may be answered before this request is.
func (p *httpPeer) sendAnswer(_ context.Context, message []byte) {
	p.sendNow(message, p.config.Limits.Connect)
}
