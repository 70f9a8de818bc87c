package streamable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// exchange is one request over HTTP and its answer.
type exchange struct {
	session *Session
	request *session.Request
	id      int64

	caller context.Context // the caller's, which decides how long to wait
	ctx    context.Context // of the HTTP request; it may outlive the caller's, to keep a connection
	cancel context.CancelCauseFunc
	wire   *outbound.Wire
	sent   string      // the last Authorization header
	untie  func() bool // detaches ctx from caller
}

// Exchange implements [session.Session]. Each request is a POST.
func (s *Session) Exchange(ctx context.Context, r *session.Request) session.Outcome {
	s.awaitStream(ctx, r.Operation)
	defer s.questions.Track(r, s.info)()
	x := &exchange{session: s, request: r, id: s.lastID.Add(1), caller: ctx}
	session.RecordRequestID(ctx, x.id)
	x.ctx, x.cancel = context.WithCancelCause(s.ctx)
	x.untie = context.AfterFunc(ctx, func() { x.cancel(context.Cause(ctx)) })
	response, out := x.sendAuthorized()
	media := ""
	if response != nil {
		if parsed, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil {
			media = parsed
		}
	}
	switch {
	case response == nil:
		x.freeResources(nil)
	case response.StatusCode == http.StatusOK && media == "text/event-stream":
		out = x.readAnswerStream(response)
	case response.StatusCode == http.StatusOK:
		out = x.preferTimeout(x.readBody(response, media))
		x.freeResources(response)
	default:
		out = x.preferTimeout(x.readRefusal(response))
		x.freeResources(response)
	}
	if s.auth != nil {
		skillauth.Hide(out.Failure, skillauth.Token(x.sent))
	}
	return out
}

// sendAuthorized sends the request with a token if the server needs one. It sends the request again with a better token if the server
// refuses it with 401 or 403: such a server did not act.
func (x *exchange) sendAuthorized() (*http.Response, session.Outcome) {
	for round := 1; ; round++ {
		r := x.buildRequest()
		signed, failure := x.session.auth.signRequest(x.ctx, r)
		x.sent = r.Header.Get("Authorization")
		switch {
		case failure != nil:
			return nil, session.Failed(failure)
		case x.session.sessionID != "" && x.session.auth.isForeign(signed):
			out := session.Failed(tool.BrokeOff(tool.EffectNone, nil, "%s: the skill was reconnected meanwhile", x.request.Label))
			out.Unsent, out.Renew = true, true // the session belongs to another account
			return nil, out
		}
		response, out := x.postRequest(r)
		if response == nil {
			return nil, out
		}
		again, failure := x.session.auth.judgeAnswer(x.ctx, r, x.request.Method, response, signed, round)
		switch {
		case failure != nil:
			skillauth.FinishRefused(response)
			return nil, session.Failed(failure)
		case !again:
			return response, out
		}
		skillauth.FinishRefused(response)
	}
}

// buildRequest returns the HTTP request.
func (x *exchange) buildRequest() *http.Request {
	s := x.session
	body := x.request.Encode(x.id, s.info)
	return &http.Request{
		Method: http.MethodPost, URL: s.endpoint, Host: s.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.requestHeader(x.request),
		// Without GetBody, because net/http sends a request again if it has one.
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// requestHeader returns the header of one request.
func (s *Session) requestHeader(r *session.Request) http.Header {
	header := maps.Clone(s.header)
	if r.Operation != nil {
		for name, value := range r.Operation.Caller.Headers {
			header.Set(name, value)
		}
	}
	r.Trace.Set(header)
	if !s.info.IsStateless() {
		return header
	}
	header[headerMethod] = []string{r.Method}
	if r.Name == "" {
		return header
	}
	header[headerName] = []string{encodeHeader(r.Name)}
	if r.Definition != nil {
		for _, b := range s.headerBindings(r.Definition) {
			if value, ok := b.formatValue(r.Arguments); ok {
				header.Set(headerParam+b.header, value)
			}
		}
	}
	return header
}

// headerBindings reads the bindings of a definition once.
func (s *Session) headerBindings(definition *tool.Definition) []Binding {
	if known, ok := s.headers.Load(definition.Pin()); ok {
		found, _ := known.([]Binding)
		return found
	}
	found, err := ReadBindings(definition.InputSchema)
	if err != nil { // the listing leaves such a tool out
		found = nil
	}
	s.headers.Store(definition.Pin(), found)
	return found
}

// postRequest sends the request. If there is no response it returns the outcome.
func (x *exchange) postRequest(r *http.Request) (*http.Response, session.Outcome) {
	s := x.session
	x.wire = &outbound.Wire{} // earlier rounds were refused
	if confirm := x.request.Confirm; confirm != nil {
		x.wire.Confirm = func() error { return confirm(x.ctx) }
		if err := confirm(x.ctx); err != nil { // over HTTP/2 nothing asks later
			return nil, session.Failed(tool.NotConfirmed(err, x.request.Label))
		}
	}
	r = r.WithContext(x.wire.Observe(x.ctx))
	response, err := s.transport.RoundTrip(r)
	if err == nil {
		return response, session.Outcome{}
	}
	stopped := x.ctx.Err() != nil
	untouched := x.wire.Untouched(stopped)
	effect := tool.EffectPossible
	if untouched {
		effect = tool.EffectNone
	}
	switch {
	case x.wire.Refused() != nil:
		return nil, session.Failed(tool.NotConfirmed(x.wire.Refused(), x.request.Label))
	case stopped:
		if !untouched {
			s.sendCancelled(x.id)
		}
		return nil, session.Failed(tool.Ended(x.ctx, effect, x.request.Label))
	case !x.wire.Connected():
		return nil, session.Failed(tool.BrokeOff(effect, err, "%s: connect to %s: %s", x.request.Label, s.origin(), plain.Line(err.Error(), 300)))
	case untouched:
		s.transport.CloseIdleConnections() // so that the next attempt opens a new one
		out := session.Failed(tool.BrokeOff(effect, err, "%s: the connection to %s closed before the request was sent", x.request.Label, s.origin()))
		out.Unsent = true
		return nil, out
	}
	return nil, session.Failed(tool.BrokeOff(effect, err, "%s: the connection to %s broke before an answer came: %s", x.request.Label, s.origin(), plain.Line(err.Error(), 300)))
}

// readBody reads an answer that is one JSON text.
func (x *exchange) readBody(response *http.Response, media string) session.Outcome {
	data, err := readBounded(response.Body, response.ContentLength, x.request.Limit+session.EnvelopeRoom)
	switch {
	case errors.Is(err, session.ErrTooLarge):
		return x.failTooLarge(data)
	case err != nil:
		return x.failBroken(err)
	}
	m, err := session.ParseMessage(data)
	if err != nil {
		return session.Failed(session.NewProtocolFailure(data, err, "%s: the server answered with something that is not MCP (%s): %s",
			x.request.Label, plain.Line(media, 100), plain.Line(err.Error(), 200)))
	}
	if !x.isAnswer(m) {
		return session.Failed(session.NewProtocolFailure(data, nil, "%s: the server answered another request than the one it was sent", x.request.Label))
	}
	return x.readAnswer(m)
}

// isAnswer reports whether a message answers the request. An error without an id does: the server could not read the id.
func (x *exchange) isAnswer(m session.Message) bool {
	return m.IsResponseTo(x.id) || (m.IsError() && m.ID == nil)
}

// readAnswer returns the outcome of an answer.
func (x *exchange) readAnswer(m session.Message) session.Outcome {
	switch {
	case m.IsError():
		return session.Failed(session.NewRPCFailure(m.Err))
	case int64(len(m.Result)) > x.request.Limit:
		return x.failTooLarge(m.Result)
	}
	return session.Outcome{Result: m.Result}
}

func (x *exchange) failTooLarge(beginning []byte) session.Outcome {
	return session.Failed(session.NewProtocolFailure(beginning, session.ErrTooLarge, "%s: the answer is larger than %d bytes", x.request.Label, x.request.Limit))
}

// failBroken returns the outcome of an answer that is incomplete.
func (x *exchange) failBroken(err error) session.Outcome {
	if x.ctx.Err() != nil {
		x.session.sendCancelled(x.id)
		return session.Failed(tool.Ended(x.ctx, tool.EffectPossible, x.request.Label))
	}
	return session.Failed(tool.BrokeOff(tool.EffectPossible, err, "%s: the connection to %s broke in the middle of the answer: %s",
		x.request.Label, x.session.origin(), plain.Line(err.Error(), 300)))
}

// preferTimeout replaces a failure of unknown effect by the end of the caller's context. A server whose client leaves may have written a
// useless answer.
func (x *exchange) preferTimeout(out session.Outcome) session.Outcome {
	if f := out.Failure; f == nil || f.Effect == tool.EffectNone || x.ctx.Err() == nil {
		return out
	}
	return session.Failed(tool.Ended(x.ctx, tool.EffectPossible, x.request.Label))
}

// freeResources frees the resources of the request. The connection is kept if the answer was read to its end.
func (x *exchange) freeResources(response *http.Response) {
	if response != nil {
		_ = response.Body.Close()
	}
	x.untie()
	x.cancel(nil)
}

// readAnswerStream reads the answer from a stream of events, and resumes the stream if the server supports that.
func (x *exchange) readAnswerStream(response *http.Response) session.Outcome {
	lastID := ""
	for tries := 0; ; tries++ {
		events, out, done := x.readStream(response, lastID)
		if done {
			return out
		}
		_ = response.Body.Close()
		if events.lastID != lastID {
			lastID, tries = events.lastID, 0
		}
		if lastID == "" || tries >= maxResumes {
			x.freeResources(nil)
			return out
		}
		delay := events.retry
		if delay == 0 {
			delay = time.Second << tries
		}
		resumed, err := x.resumeStream(lastID, delay)
		if err != nil {
			x.freeResources(nil)
			if x.ctx.Err() != nil {
				return x.failBroken(err)
			}
			return session.Failed(tool.BrokeOff(tool.EffectPossible, err, "%s: the answer's stream ended early and could not be resumed: %s",
				x.request.Label, plain.Line(err.Error(), 300)))
		}
		response = resumed
	}
}

// maxResumes bounds how often a stream is resumed without a new event.
const maxResumes = 5

// readStream reads events until the answer. If done is set, the outcome is final and all resources are freed. Otherwise the stream ended
// without an answer, which is the outcome unless the stream is resumed.
func (x *exchange) readStream(response *http.Response, lastID string) (events *eventReader, out session.Outcome, done bool) {
	reader, giveBack := x.session.borrowReader(response.Body)
	events = &eventReader{source: reader, limit: x.request.Limit + session.EnvelopeRoom, lastID: lastID}
	for {
		data, err := events.nextEvent()
		if err != nil {
			giveBack()
			switch {
			case errors.Is(err, session.ErrTooLarge):
				x.freeResources(response)
				return events, x.failTooLarge(data), true
			case x.ctx.Err() != nil:
				x.freeResources(response)
				return events, x.failBroken(err), true
			}
			return events, x.failBroken(err), false
		}
		m, err := session.ParseMessage(data)
		if err != nil && events.partial {
			giveBack()
			return events, x.failBroken(io.ErrUnexpectedEOF), false
		}
		if err != nil {
			giveBack()
			x.freeResources(response)
			return events, session.Failed(session.NewProtocolFailure(data, err, "%s: the server sent an event that is not MCP: %s", x.request.Label, plain.Line(err.Error(), 200))), true
		}
		if x.isAnswer(m) {
			x.drainStream(response, giveBack, events)
			return events, x.readAnswer(m), true
		}
		x.handleMessage(m)
	}
}

// handleMessage handles a notification or request of the server that precedes the answer. On the stream of a request it belongs to the
// operation of that request.
func (x *exchange) handleMessage(m session.Message) {
	s, op := x.session, x.request.Operation
	switch {
	case m.Method == session.LogNotification && m.ID == nil:
		op.HandleLog(m.Params)
	case op != nil && !s.info.IsStateless() && s.questions.Accepts(m):
		s.questions.Handle(x.ctx, op, m)
	default:
		s.handleMessage(m)
	}
}

// drainStream reads the rest of a stream in the background for a short while, so that its connection can be reused.
func (x *exchange) drainStream(response *http.Response, giveBack func(), events *eventReader) {
	x.untie()
	if events.partial {
		giveBack()
		x.freeResources(response)
		return
	}
	started := x.session.background.Go(func() {
		timer := time.AfterFunc(500*time.Millisecond, func() { x.cancel(session.ErrClosed) })
		_, _ = io.CopyN(io.Discard, events.source, 64<<10)
		timer.Stop()
		giveBack()
		_ = response.Body.Close()
		x.cancel(nil)
	})
	if !started {
		giveBack()
		x.freeResources(response)
	}
}

// resumeStream requests the events after lastID.
func (x *exchange) resumeStream(lastID string, delay time.Duration) (*http.Response, error) {
	if err := pause.For(x.ctx, delay); err != nil {
		return nil, err
	}
	return x.session.openStream(x.ctx, lastID)
}
