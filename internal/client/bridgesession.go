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
	initialize  *message // the request that started it
	listChanged bool     // the server announces that its list of tools changed
	cancel      context.CancelFunc
}

// setHeaders sets the headers of a session's messages.
func (s *session) setHeaders(h http.Header) {
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

// beginStart notes that a session is being started. done notes that it has started, or failed.
func (all *sessions) beginStart() (done func()) {
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

// sessionOf returns the session that a message belongs to, or nil. It waits while a session is being started.
func (all *sessions) sessionOf(ctx context.Context, m *message) (*session, error) {
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

func (all *sessions) replaceCurrent(s *session) {
	all.mu.Lock()
	old := all.current
	all.current = s
	all.mu.Unlock()
	if old != nil {
		old.cancel()
	}
}

// readSession reads the answer to initialize.
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

// adoptStarted notes the session that the client started.
func (b *Bridge) adoptStarted(m *message, answer []byte, id string) (attend func()) {
	s, err := readSession(m, answer, id)
	if err != nil {
		return func() {} // the client is told by the answer itself
	}
	return b.adoptSession(s)
}

// adoptSession makes a session the current one. attend starts to listen to it.
func (b *Bridge) adoptSession(s *session) (attend func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	s.cancel = cancel
	b.session.replaceCurrent(s)
	return func() {
		if s.id != "" {
			b.streams.Go(func() { b.listenSession(ctx, s) })
		}
	}
}

// renewSession starts a session again that the server has forgotten, as the client did. Its calls belong to the agent
// and can be found from the new session.
func (b *Bridge) renewSession(ctx context.Context, lost *session) error {
	all := &b.session
	all.renewing.Lock()
	defer all.renewing.Unlock()
	all.mu.Lock()
	current := all.current
	all.mu.Unlock()
	if current != lost {
		return nil // another request renewed it
	}
	s, err := b.repeatInitialize(ctx, lost)
	if err != nil {
		return fmt.Errorf("start a new session: %w", err)
	}
	b.Log("the server did not know the session any more; there is a new one")
	b.adoptSession(s)()
	if s.listChanged {
		b.writeMessage([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	}
	return nil
}

// repeatInitialize sends the client's initialize again.
func (b *Bridge) repeatInitialize(ctx context.Context, lost *session) (*session, error) {
	ctx, watch := b.watchSilence(ctx)
	defer watch.stop()
	response, err := b.postMessage(ctx, lost.initialize, nil)
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
		return nil, &LostError{Sent: true, Err: causeOf(ctx, err)}
	case response.StatusCode != http.StatusOK:
		return nil, readProblem(response, answer)
	}
	s, err := readSession(lost.initialize, answer, response.Header.Get(headerSession))
	switch {
	case err != nil:
		return nil, err
	case s.version != lost.version:
		return nil, fmt.Errorf("the server speaks MCP %q now, and spoke %q: connect again", clipText(s.version), clipText(lost.version))
	}
	return s, b.sendNotification(ctx, &message{raw: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}, s)
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
		s, err := b.session.sessionOf(b.ctx, m)
		if err != nil {
			return err
		}
		err = b.sendNotification(b.ctx, m, s)
		if lost, ok := errors.AsType[*LostError](err); !ok || lost.Sent || !pauses.waitNext(b.ctx, err) {
			return err
		}
	}
}

// sendNotification sends a message that has no answer.
func (b *Bridge) sendNotification(ctx context.Context, m *message, s *session) error {
	ctx, watch := b.watchSilence(ctx)
	defer watch.stop()
	response, err := b.postMessage(ctx, m, s)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		return readProblem(response, text)
	}
	return nil // it arrived
}

// listenSession passes on the server's own messages while the session is the current one.
func (b *Bridge) listenSession(ctx context.Context, s *session) {
	last := ""
	for pauses := b.newPauses(); ; {
		heard, err := b.readStream(ctx, s, &last)
		problem, refused := errors.AsType[*Problem](err)
		switch {
		case ctx.Err() != nil:
			return
		case refused && problem.Status == http.StatusMethodNotAllowed:
			return // the server has no such stream
		case refused && problem.Status == http.StatusNotFound:
			err = b.renewSession(ctx, s)
			if err == nil || ctx.Err() != nil {
				return // the new session has its own listener
			}
		case refused && problem.Status < http.StatusInternalServerError && problem.Status != http.StatusTooManyRequests:
			b.Log("announcements of the server cannot be heard: %v", problem)
			return
		}
		if heard {
			pauses = b.newPauses()
		}
		pauses.left = b.Patience // never give up
		if !pauses.waitNext(ctx, err) {
			return
		}
	}
}

// readStream reads a session's own stream once. It reports whether the stream was open.
func (b *Bridge) readStream(ctx context.Context, s *session, last *string) (bool, error) {
	ctx, watch := b.watchSilence(ctx)
	defer watch.stop()
	response, err := b.openStream(ctx, b.endpoint, *last, s.setHeaders)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	if !isStream(response) {
		text, _ := readAll(response.Body) // without a body the status says enough
		problem := readProblem(response, text)
		if problem.Status < http.StatusMultipleChoices {
			problem.Status, problem.Detail = http.StatusMethodNotAllowed, "it is not a stream"
		}
		return false, problem
	}
	return true, eachMessage(watch.watchReader(response.Body), func(e event) (bool, error) {
		*last = e.id
		if isJSON(e.data) {
			b.writeMessage(e.data)
		}
		return false, nil
	})
}

// endSession tells the server that the session is over. Its calls continue.
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
	s.setHeaders(request.Header)
	response, err := b.HTTP.Do(request)
	if err != nil {
		b.Log("the session was not ended: %v", b.unreachableError(err))
		return
	}
	_ = response.Body.Close()
}
