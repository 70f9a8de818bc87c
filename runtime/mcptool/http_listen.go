package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The pauses between attempts to listen again.
const (
	listenPause    = time.Second
	maxListenPause = time.Minute
)

// listenAnewPause is how long a stream is not opened anew: what is wanted often changes several times in a row.
const listenAnewPause = 50 * time.Millisecond

// errAnew is why a stream is closed that is opened anew.
var errAnew = errors.New("something else is listened to by now")

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
	pause, lastID, open := listenPause, "", false
	for p.ctx.Err() == nil {
		began := p.config.Now()
		id, wish, err := p.listenOnce(lastID)
		lastID = id
		refused, is := errors.AsType[*streamRefused](err)
		open = open || !is
		switch {
		case is && refused.status < http.StatusInternalServerError:
			p.config.Logger.Debug("server announces nothing", "skill", p.server.Skill, "error", err)
			if open && p.sessionID != "" && refused.status == http.StatusNotFound {
				p.gone.Store(true)
			}
			select {
			case <-p.anew:
			case <-p.ctx.Done():
				return
			}
			continue
		case errors.Is(err, errAnew):
			pause, wish = listenAnewPause, 0
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
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	select {
	case <-p.anew: // it is
	default:
	}
	p.tasks.run(func() {
		select {
		case <-p.anew:
			cancel(errAnew)
		case <-ctx.Done():
		}
	})
	response, err := p.openListen(ctx, after)
	p.opened()
	if err != nil {
		return after, 0, because(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	reader, giveBack := p.borrow(response.Body)
	defer giveBack()
	events := &eventReader{source: reader, limit: maxAnnouncement, lastID: after}
	for {
		data, err := events.next()
		if err != nil {
			return events.lastID, events.retry, because(ctx, err)
		}
		if e, err := parseEnvelope(data); err == nil && e.method != "" {
			p.received(e)
		}
	}
}

// openListen opens the stream of the revision that was agreed on.
func (p *httpPeer) openListen(ctx context.Context, after string) (*http.Response, error) {
	if !p.agreed.modern() {
		return p.openStream(ctx, after)
	}
	ask := listenRequest(p.agreed.offers, p.listener)
	body := ask.encode(p.lastID.Add(1), p.agreed.metaOf(ask))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header, r.Host = p.requestHeader(ask), p.host
	return p.eventStream(r)
}

// because is why reading a stream failed.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errAnew) {
		return errAnew
	}
	return err
}

// hearUpdates implements peer.
func (p *httpPeer) hearUpdates(ctx context.Context) {
	if p.agreed.modern() {
		select {
		case p.anew <- struct{}{}:
		default:
		}
	}
	p.startListening()
	select {
	case <-p.heard:
	case <-ctx.Done():
	}
}

// listenRequest asks a server of 2026-07-28 to announce what is listened to: changes of its lists, and of resources.
func listenRequest(offers tool.Capabilities, to listener) *request {
	wanted := struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Lists     bool     `json:"resourcesListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources []string `json:"resourceSubscriptions,omitempty"`
	}{Tools: offers.ToolsListChanged, Lists: offers.ResourcesListChanged, Prompts: offers.PromptsListChanged}
	if offers.ResourcesSubscribe && to.subscribed != nil {
		wanted.Resources = to.subscribed()
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		panic(err) // it always has a form
	}
	return &request{method: "subscriptions/listen", members: append([]byte(`"notifications":`), text...)}
}
