package mcptool

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

// The pauses between attempts to listen again.
const (
	listenPause    = time.Second
	maxListenPause = time.Minute
)

// maxAnnouncement bounds one event of a stream that nobody asked for.
const maxAnnouncement = 1 << 20

// listenPatience is how long an errand waits for the server's own stream.
const listenPatience = time.Second

// startListening opens the server's own stream, once.
func (p *httpPeer) startListening() {
	p.listens.Do(func() {
		p.tasks.run(p.listen)
		p.tasks.run(func() { // a stream that is silent holds nobody up for long
			timer := time.NewTimer(listenPatience)
			defer timer.Stop()
			select {
			case <-timer.C:
				p.opened()
			case <-p.heard:
			case <-p.ctx.Done():
			}
		})
	})
}

// opened says that the server's own stream is open, or is waited for no longer.
func (p *httpPeer) opened() { p.opening.Do(func() { close(p.heard) }) }

// hearing waits until the server's own stream is open, for an errand that a server of sessions may
// ask on it: what comes before that is lost. But not for long: some servers
// send not even a header before they have something to say.
func (p *httpPeer) hearing(ctx context.Context, e *errand) {
	if p.agreed.modern() || !e.canBeAsked() {
		return
	}
	p.startListening()
	select {
	case <-p.heard:
	case <-ctx.Done():
	}
}

// listen keeps a stream open on which the server announces changes and asks
// questions, for as long as the peer lives and the server offers one. That it does not, or
// breaks it, is of no consequence to requests.
func (p *httpPeer) listen() {
	pause, lastID := listenPause, ""
	for p.ctx.Err() == nil {
		began := p.config.Now()
		id, wish, err := p.listenOnce(lastID)
		lastID = id
		var refused *streamRefused
		if errors.As(err, &refused) && refused.status < 500 {
			p.config.Logger.Debug("server announces nothing", "skill", p.server.Skill, "error", err)
			return
		}
		if p.config.Now().Sub(began) > maxListenPause {
			pause = listenPause
		}
		timer := time.NewTimer(max(pause, min(wish, maxListenPause)))
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxListenPause)
	}
}

// listenOnce reads one stream to its end.
func (p *httpPeer) listenOnce(after string) (lastID string, wish time.Duration, err error) {
	response, err := p.openListen(after)
	p.opened()
	if err != nil {
		return after, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	reader, giveBack := p.borrow(response.Body)
	defer giveBack()
	events := &eventReader{source: reader, limit: maxAnnouncement, lastID: after}
	for {
		data, err := events.next()
		if err != nil {
			return events.lastID, events.retry, err
		}
		if e, err := parseEnvelope(data); err == nil && e.method != "" {
			p.received(e)
		}
	}
}

// openListen opens the stream of the revision that was agreed on.
func (p *httpPeer) openListen(after string) (*http.Response, error) {
	if !p.agreed.modern() {
		return p.openStream(p.ctx, after)
	}
	ask := listenRequest()
	body := ask.encode(p.lastID.Add(1), p.agreed.metaOf(ask))
	r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.server.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header, r.Host = p.requestHeader(ask), p.host
	return p.eventStream(r)
}

// listenRequest asks a server of 2026-07-28 to announce changes of its tools.
func listenRequest() *request {
	return &request{method: "subscriptions/listen", members: []byte(`"notifications":{"toolsListChanged":true}`)}
}
