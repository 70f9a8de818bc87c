package streamable

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
)

// awaitStream waits until the stream of announcements is open, for an operation that a server with sessions may ask questions on it.
// Questions from before are lost. It does not wait for long, because some servers do not even send a header before the first event.
func (s *Session) awaitStream(ctx context.Context, op *session.Operation) {
	if s.info.IsStateless() || !op.CanBeAsked() {
		return
	}
	s.startListening()
	select {
	case <-s.streamOpen:
	case <-ctx.Done():
	}
}

// RefreshUpdates implements [session.Session].
func (s *Session) RefreshUpdates(ctx context.Context) {
	if s.info.IsStateless() {
		select {
		case s.reopen <- struct{}{}:
		default:
		}
	}
	s.startListening()
	select {
	case <-s.streamOpen:
	case <-ctx.Done():
	}
}

// startListening opens the stream of announcements, once.
func (s *Session) startListening() {
	s.startOnce.Do(func() {
		s.background.Go(s.keepListening)
		s.background.Go(func() { // operations do not wait long for a stream that is silent
			timer := time.NewTimer(listenPatience)
			defer timer.Stop()
			select {
			case <-timer.C:
				s.markStreamOpen()
			case <-s.streamOpen:
			case <-s.ctx.Done():
			}
		})
	})
}

// The pauses between attempts to open the stream of announcements.
const (
	listenPause    = time.Second
	maxListenPause = time.Minute
)

// listenAnewPause is the pause before the stream is opened again with other subscriptions, which often change several times in a row.
const listenAnewPause = 50 * time.Millisecond

// listenPatience is how long an operation waits for the stream of announcements.
const listenPatience = time.Second

// errReopened is the cause of the end of a stream that is opened again with other subscriptions.
var errReopened = errors.New("the subscriptions changed")

// markStreamOpen ends the wait for the stream of announcements.
func (s *Session) markStreamOpen() { s.openOnce.Do(func() { close(s.streamOpen) }) }

// keepListening keeps the stream of announcements and questions open while the session lives and the server offers one. Its failures do
// not affect requests.
func (s *Session) keepListening() {
	pause, lastID, open := listenPause, "", false
	for s.ctx.Err() == nil {
		began := s.dial.Now()
		id, wish, err := s.listenOnce(lastID)
		lastID = id
		refused, is := errors.AsType[*streamRefused](err)
		open = open || !is
		switch {
		case is && refused.status < http.StatusInternalServerError:
			s.dial.Logger.Debug("server announces nothing", "skill", s.server.Skill, "error", err)
			if open && s.sessionID != "" && refused.status == http.StatusNotFound {
				s.isGone.Store(true)
			}
			select {
			case <-s.reopen:
			case <-s.ctx.Done():
				return
			}
			continue
		case errors.Is(err, errReopened):
			pause, wish = listenAnewPause, 0
		}
		if s.dial.Now().Sub(began) > maxListenPause {
			pause = listenPause
		}
		timer := time.NewTimer(max(pause, min(wish, maxListenPause)))
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxListenPause)
	}
}

// listenOnce reads one stream to its end. It returns the id of the last event, and the pause that the server wishes.
func (s *Session) listenOnce(after string) (lastID string, wish time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	select {
	case <-s.reopen: // this is the new stream
	default:
	}
	s.background.Go(func() {
		select {
		case <-s.reopen:
			cancel(errReopened)
		case <-ctx.Done():
		}
	})
	response, err := s.openListen(ctx, after)
	s.markStreamOpen()
	if err != nil {
		return after, 0, streamError(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	reader, giveBack := s.borrowReader(response.Body)
	defer giveBack()
	events := &eventReader{source: reader, limit: session.MaxAnnouncement, lastID: after}
	for {
		data, err := events.nextEvent()
		if err != nil {
			return events.lastID, events.retry, streamError(ctx, err)
		}
		if m, err := session.ParseMessage(data); err == nil && m.Method != "" {
			s.handleMessage(m)
		}
	}
}

// streamError returns why reading a stream failed.
func streamError(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errReopened) {
		return errReopened
	}
	return err
}

// openListen opens the stream of announcements.
func (s *Session) openListen(ctx context.Context, after string) (*http.Response, error) {
	if !s.info.IsStateless() {
		return s.openStream(ctx, after)
	}
	ask := session.NewListenRequest(s.info.Capabilities, s.dial.Listener)
	body := ask.Encode(s.lastID.Add(1), s.info)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header, r.Host = s.requestHeader(ask), s.host
	return s.eventStream(r)
}

// openStream opens a stream with GET: of the events after lastID, or of announcements if lastID is empty.
func (s *Session) openStream(ctx context.Context, lastID string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL, nil)
	if err != nil {
		return nil, err
	}
	r.Header, r.Host = maps.Clone(s.header), s.host
	r.Header.Del("Content-Type")
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set(headerLastEvent, lastID)
	}
	return s.eventStream(r)
}

// eventStream sends a request whose answer must be a stream of events.
func (s *Session) eventStream(r *http.Request) (*http.Response, error) {
	signed, failure := s.auth.signRequest(r.Context(), r)
	if failure != nil {
		return nil, failure
	}
	if s.sessionID != "" && s.auth.isForeign(signed) {
		return nil, session.ErrClosed // the session belongs to another account
	}
	response, err := s.transport.RoundTrip(r)
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

// streamRefused is the error of an answer that is not a stream.
type streamRefused struct {
	status int
	media  string
}

func (e *streamRefused) Error() string {
	return strings.TrimSpace("the server offered no stream: " + http.StatusText(e.status) + " " + plain.Line(e.media, 100))
}
