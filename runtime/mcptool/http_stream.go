package mcptool

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxResumes bounds how often one answer's stream is resumed without a new
// event having come.
const maxResumes = 5

// stream reads the answer from a stream of events, resuming it where the
// server offers that.
func (x *httpExchange) stream(response *http.Response) outcome {
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
			x.finish(nil)
			return out
		}
		delay := events.retry
		if delay == 0 {
			delay = time.Second << tries
		}
		resumed, err := x.resume(lastID, delay)
		if err != nil {
			x.finish(nil)
			if x.ctx.Err() != nil {
				return x.broke(err)
			}
			return failed(tool.BrokeOff(tool.EffectPossible, err, "%s: the answer's stream ended early and could not be resumed: %s",
				x.request.what, plain(err.Error(), 300)))
		}
		response = resumed
	}
}

// readStream reads events until the answer. done: out is final and everything
// is freed; else the stream ended without an answer, and out says so.
func (x *httpExchange) readStream(response *http.Response, lastID string) (events *eventReader, out outcome, done bool) {
	reader, giveBack := x.peer.borrow(response.Body)
	events = &eventReader{source: reader, limit: x.request.limit + envelopeRoom, lastID: lastID}
	for {
		data, err := events.next()
		if err != nil {
			giveBack()
			switch {
			case errors.Is(err, errTooLarge):
				x.finish(response)
				return events, x.tooLarge(data), true
			case x.ctx.Err() != nil:
				x.finish(response)
				return events, x.broke(err), true
			}
			return events, x.broke(err), false
		}
		e, err := parseEnvelope(data)
		if err != nil && events.partial {
			giveBack()
			return events, x.broke(io.ErrUnexpectedEOF), false
		}
		if err != nil {
			giveBack()
			x.finish(response)
			return events, failed(protocolFailure(data, err, "%s: the server sent an event that is not MCP: %s", x.request.what, plain(err.Error(), 200))), true
		}
		if x.isAnswer(e) {
			x.drain(response, giveBack, events)
			return events, x.answered(e), true
		}
		x.received(e)
	}
}

// drain lets the rest of a stream pass, for a short while, so that its
// connection can be used again. The caller does not wait for it.
func (x *httpExchange) drain(response *http.Response, giveBack func(), events *eventReader) {
	x.release()
	if events.partial {
		giveBack()
		x.finish(response)
		return
	}
	started := x.peer.tasks.run(func() {
		timer := time.AfterFunc(500*time.Millisecond, func() { x.cancel(errPeerClosed) })
		_, _ = io.CopyN(io.Discard, events.source, 64<<10)
		timer.Stop()
		giveBack()
		_ = response.Body.Close()
		x.cancel(nil)
	})
	if !started {
		giveBack()
		x.finish(response)
	}
}

// resume asks for the events after lastID.
func (x *httpExchange) resume(lastID string, delay time.Duration) (*http.Response, error) {
	if err := pause.For(x.ctx, delay); err != nil {
		return nil, err
	}
	return x.peer.openStream(x.ctx, lastID)
}

// openStream opens a stream with GET: of what follows the event lastID, or,
// without one, of what the server says unasked.
func (p *httpPeer) openStream(ctx context.Context, lastID string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server.URL, nil)
	if err != nil {
		return nil, err
	}
	r.Header, r.Host = maps.Clone(p.header), p.host
	r.Header.Del("Content-Type")
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set(headerLastEvent, lastID)
	}
	return p.eventStream(r)
}

// eventStream sends r and wants a stream of events.
func (p *httpPeer) eventStream(r *http.Request) (*http.Response, error) {
	signed, failure := p.auth.sign(r.Context(), r)
	if failure != nil {
		return nil, failure
	}
	if p.sessionID != "" && p.auth.foreign(signed) {
		return nil, errPeerClosed // the session is another account's
	}
	response, err := p.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || err != nil || media != "text/event-stream" {
		_ = response.Body.Close()
		return nil, &streamRefused{status: response.StatusCode, media: media}
	}
	return response, nil
}

// streamRefused is a server's answer that is no stream.
type streamRefused struct {
	status int
	media  string
}

func (e *streamRefused) Error() string {
	return strings.TrimSpace("the server offered no stream: " + http.StatusText(e.status) + " " + plain(e.media, 100))
}

// received acts on what a server sends before it answers. What it says and asks on a
// request's own stream is about that errand.
func (x *httpExchange) received(e envelope) {
	p, errand := x.peer, x.request.errand
	switch {
	case e.method == logNotification && e.id == nil:
		errand.logged(e.params)
	case errand != nil && !p.agreed.modern() && p.asked.takes(e):
		p.asked.received(x.ctx, errand, e)
	default:
		p.received(e)
	}
}

// received acts on what a server sends besides answers.
func (p *httpPeer) received(e envelope) {
	switch {
	case p.listener.received(e), p.agreed.modern():
	case p.asked.takes(e):
		p.asked.received(p.ctx, nil, e)
	case e.isCall():
		p.sendLater(answerTo(e))
	}
}
