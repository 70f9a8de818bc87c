package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// session is a session of the legacy era (MCP up to 2025-11-25).
type session struct {
	id          string
	version     string   // of the protocol, as it was negotiated
	initialize  *message // what started it
	listChanged bool     // the server announces that its list of tools changed
	cancel      context.CancelFunc
}

// mark sets the headers that messages of a session are sent with.
func (s *session) mark(h http.Header) {
	if s.id != "" {
		h.Set(headerSession, s.id)
	}
	h.Set(headerVersion, s.version)
}

// sessions is the one session that there is at a time.
type sessions struct {
	mu       sync.Mutex
	current  *session
	starting chan struct{} // closed when the initialize that is under way was answered; nil: none is
	renewing sync.Mutex
}

// begin notes that a session is being started; what it returns, that this has ended.
func (all *sessions) begin() (done func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	starting := make(chan struct{})
	all.starting = starting
	return func() {
		close(starting)
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.starting == starting {
			all.starting = nil
		}
	}
}

// of is the session that a message belongs to, or nil. Messages wait while it is being started.
func (all *sessions) of(ctx context.Context, m *message) (*session, error) {
	if m.version != "" || m.method == "initialize" {
		return nil, nil
	}
	all.mu.Lock()
	current, starting := all.current, all.starting
	all.mu.Unlock()
	if starting == nil {
		return current, nil
	}
	select {
	case <-starting:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.current, nil
}

func (all *sessions) replace(s *session) {
	all.mu.Lock()
	old := all.current
	all.current = s
	all.mu.Unlock()
	if old != nil {
		old.cancel()
	}
}

// readSession reads what a server answered to initialize.
func readSession(m *message, answer []byte, id string) (*session, error) {
	var reply struct {
		Result *struct {
			ProtocolVersion string `json:"protocolVersion"`
			Capabilities    struct {
				Tools struct {
					ListChanged bool `json:"listChanged"`
				} `json:"tools"`
			} `json:"capabilities"`
		} `json:"result"`
		Error *RPCError `json:"error"`
	}
	switch err := json.Unmarshal(answer, &reply); {
	case err != nil:
		return nil, fmt.Errorf("understand answer to initialize: %w", err)
	case reply.Error != nil:
		return nil, reply.Error
	case reply.Result == nil:
		return nil, errors.New("understand answer to initialize: it is neither a result nor an error")
	}
	return &session{
		id: id, version: reply.Result.ProtocolVersion, initialize: m,
		listChanged: reply.Result.Capabilities.Tools.ListChanged, cancel: func() {},
	}, nil
}

// started notes the session that the client began.
func (b *Bridge) started(m *message, answer []byte, id string) (attend func()) {
	s, err := readSession(m, answer, id)
	if err != nil {
		return func() {} // the client is told by the answer itself
	}
	return b.adopt(s)
}

// adopt makes a session the current one. What it returns begins to listen to it.
func (b *Bridge) adopt(s *session) (attend func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	s.cancel = cancel
	b.session.replace(s)
	return func() {
		if s.id != "" {
			b.streams.Go(func() { b.listen(ctx, s) })
		}
	}
}

// renew starts a session in place of one that the server does not know any more, as the client did: the
// calls made in it are the agent's, and are found from the new one.
func (b *Bridge) renew(ctx context.Context, lost *session) error {
	all := &b.session
	all.renewing.Lock()
	defer all.renewing.Unlock()
	all.mu.Lock()
	current := all.current
	all.mu.Unlock()
	if current != lost {
		return nil // somebody did it meanwhile
	}
	s, err := b.again(ctx, lost)
	if err != nil {
		return fmt.Errorf("start a new session: %w", err)
	}
	b.Log("the server did not know the session any more; there is a new one")
	b.adopt(s)()
	if s.listChanged {
		b.write([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	}
	return nil
}

// again sends the client's initialize once more.
func (b *Bridge) again(ctx context.Context, lost *session) (*session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatch(b.Silence, cancel)
	defer watch.stop()
	response, err := b.post(ctx, lost.initialize, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer []byte
	if isStream(response) {
		answer, err = readEvents(response.Body)
	} else {
		answer, err = readAll(response.Body)
	}
	switch {
	case err != nil:
		return nil, &LostError{Sent: true, Err: cause(ctx, err)}
	case response.StatusCode != http.StatusOK:
		return nil, problemOf(response, answer)
	}
	s, err := readSession(lost.initialize, answer, response.Header.Get(headerSession))
	switch {
	case err != nil:
		return nil, err
	case s.version != lost.version:
		return nil, fmt.Errorf("the server speaks MCP %q now, and spoke %q: connect again", clip(s.version), clip(lost.version))
	}
	return s, b.notify(ctx, &message{raw: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}, s)
}

// sendNotes sends notifications and responses one after the other.
func (b *Bridge) sendNotes() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case m, ok := <-b.notes:
			if !ok {
				return
			}
			if err := b.sendNote(m); err != nil && b.ctx.Err() == nil {
				b.Log("%s was not delivered: %v", m.describe(), err)
			}
		}
	}
}

func (b *Bridge) sendNote(m *message) error {
	for pauses := b.newPauses(); ; {
		s, err := b.session.of(b.ctx, m)
		if err != nil {
			return err
		}
		err = b.notify(b.ctx, m, s)
		if lost, ok := errors.AsType[*LostError](err); !ok || lost.Sent || !pauses.next(b.ctx, err) {
			return err
		}
	}
}

// notify sends what has no answer.
func (b *Bridge) notify(ctx context.Context, m *message, s *session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer newWatch(b.Silence, cancel).stop()
	response, err := b.post(ctx, m, s)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		return problemOf(response, text)
	}
	return nil // it arrived
}

// listen passes on what the server says of its own accord, as long as the session is the current one.
func (b *Bridge) listen(ctx context.Context, s *session) {
	last := ""
	for pauses := b.newPauses(); ; {
		heard, err := b.hear(ctx, s, &last)
		problem, refused := errors.AsType[*Problem](err)
		switch {
		case ctx.Err() != nil:
			return
		case refused && problem.Status == http.StatusMethodNotAllowed:
			return // there is nothing to hear
		case refused && problem.Status == http.StatusNotFound:
			err = b.renew(ctx, s)
			if err == nil || ctx.Err() != nil {
				return // the new session is listened to
			}
		case refused && problem.Status < http.StatusInternalServerError && problem.Status != http.StatusTooManyRequests:
			b.Log("announcements of the server cannot be heard: %v", problem)
			return
		}
		if heard {
			pauses = b.newPauses()
		}
		pauses.left = b.Patience // it is never given up
		if !pauses.next(ctx, err) {
			return
		}
	}
}

// hear opens a session's own stream once. It reports whether it was open.
func (b *Bridge) hear(ctx context.Context, s *session, last *string) (bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatch(b.Silence, cancel)
	defer watch.stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.endpoint, http.NoBody)
	if err != nil {
		return false, fmt.Errorf("make request: %w", err)
	}
	b.authorize(request)
	s.mark(request.Header)
	request.Header.Set("Accept", "text/event-stream")
	if *last != "" {
		request.Header.Set("Last-Event-ID", *last)
	}
	response, err := b.HTTP.Do(request)
	if err != nil {
		return false, b.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	if !isStream(response) {
		text, _ := readAll(response.Body) // what cannot be read says nothing
		problem := problemOf(response, text)
		if problem.Status < http.StatusMultipleChoices {
			problem.Status, problem.Detail = http.StatusMethodNotAllowed, "it is no stream"
		}
		return false, problem
	}
	return true, eachEvent(watch.reader(response.Body), func(e event) (bool, error) {
		*last = e.id
		if isJSON(e.data) {
			b.write(e.data)
		}
		return false, nil
	})
}

// endSession tells the server that the session is over. Its calls go their way.
func (b *Bridge) endSession() {
	b.session.mu.Lock()
	s := b.session.current
	b.session.mu.Unlock()
	if s == nil || s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), farewell)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.endpoint, http.NoBody)
	if err != nil {
		return
	}
	b.authorize(request)
	s.mark(request.Header)
	response, err := b.HTTP.Do(request)
	if err != nil {
		b.Log("the session was not ended: %v", b.unreachable(err))
		return
	}
	_ = response.Body.Close()
}
