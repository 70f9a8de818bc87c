package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// exchange is one request of the client and its answer.
type exchange struct {
	*Bridge
	m      *message // the request, or the one that waits for its call
	cancel context.CancelCauseFunc
	callID string // once it is known
	opened bool   // the last attempt got a stream
	held   bool   // a stream is open for it; guarded by Bridge.mu
}

// answerRequest sends a request until it is answered. If there is no answer, it writes an error.
func (x *exchange) answerRequest(ctx context.Context) {
	id := x.m.id
	err := x.passRequest(ctx)
	if err == nil || ctx.Err() != nil {
		return // answered, or cancelled
	}
	x.Log("%s: %v", x.m.describe(), err)
	x.writeMessage(x.explainFailure(id, err))
}

// passRequest sends the request until its answer was passed back.
func (x *exchange) passRequest(ctx context.Context) error {
	pauses := x.newPauses()
	renewals := 0
	for {
		s, err := x.session.sessionOf(ctx, x.m)
		if err != nil {
			return err
		}
		x.opened = false
		err = x.sendOnce(ctx, s)
		if x.opened {
			pauses = x.newPauses() // the server is there
		}
		lost, isLost := errors.AsType[*LostError](err)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, errNoSession) && s != nil && renewals < 2:
			renewals++
			if err := x.renewSession(ctx, s); err != nil {
				return fmt.Errorf("%w, and no new one could be started: %v", errNoSession, err) //nolint:errorlint // the cause is about another request
			}
			continue
		case isLost && lost.Sent && x.callID != "" && x.m.method == "tools/call":
			x.m = x.m.awaitMessage(x.callID)
		case isLost && (!lost.Sent || x.m.isHarmless()):
		case isRetryable(err, x.m.isHarmless()):
		default:
			return err
		}
		if !pauses.waitNext(ctx, err) {
			return err
		}
	}
}

// sendOnce sends the request once, and passes its answer back. The error is a *[LostError], a *[Problem],
// errNoSession, or permanent.
func (x *exchange) sendOnce(ctx context.Context, s *session) error {
	ctx, watch := x.watchSilence(ctx)
	defer watch.stop()
	response, err := x.postMessage(ctx, x.m, s)
	watch.timer.Stop()
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if header := response.Header.Get(headerCall); header != "" {
		x.callID = header
	}
	content := watch.watchReader(response.Body)
	if x.opened = isStream(response); x.opened {
		x.markHeld()
		err = x.passEvents(content, response)
	} else {
		err = x.passJSON(content, response, s != nil)
	}
	if errors.Is(err, errCut) {
		err = &LostError{Sent: true, Err: causeOf(ctx, err)}
	}
	return err
}

// markHeld notes that the response is held open.
func (x *exchange) markHeld() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = true
	if x.closing {
		x.cancel(errCancelled)
	}
}

func isStream(response *http.Response) bool {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return media == "text/event-stream" && response.StatusCode == http.StatusOK
}

// postMessage sends a message once.
func (b *Bridge) postMessage(ctx context.Context, m *message, s *session) (*http.Response, error) {
	return b.postOnce(ctx, b.endpoint, m.raw, func(h http.Header) {
		h.Set("Accept", "application/json, text/event-stream")
		switch {
		case m.version != "":
			m.setHeaders(h, &b.mirrors)
		case s != nil:
			s.setHeaders(h)
		}
	})
}

// passEvents passes a stream on, up to its end.
func (x *exchange) passEvents(content io.Reader, response *http.Response) error {
	done := false
	err := eachMessage(content, func(e event) (bool, error) {
		if done || !isJSON(e.data) {
			return false, nil
		}
		done = isAnswerTo(e.data, x.m.id)
		return false, x.passAnswer(e.data, done, response)
	})
	if done {
		return nil // closed after the answer
	}
	return err
}

func (x *exchange) passJSON(content io.Reader, response *http.Response, inSession bool) error {
	text, err := readAll(content)
	switch status := response.StatusCode; {
	case err != nil:
		return fmt.Errorf("%w: %w", errCut, err)
	case isJSON(text) && isAnswerTo(text, x.m.id):
		return x.passAnswer(text, true, response)
	case status == http.StatusNotFound && inSession && x.m.version == "":
		return errNoSession
	case status >= http.StatusMultipleChoices:
		return withRetryAfter(readProblem(response, text), response)
	case status == http.StatusAccepted || status == http.StatusNoContent:
		return errNoAnswer
	default:
		return fmt.Errorf("understand answer of %s: it is not an MCP message", x.base)
	}
}

// passAnswer writes a message to the client, after the session and the mirrors have seen it.
func (x *exchange) passAnswer(text []byte, isAnswer bool, response *http.Response) error {
	if isAnswer && x.m.version == "" && x.m.method == "initialize" {
		attend := x.adoptStarted(x.m, text, response.Header.Get(headerSession))
		x.writeMessage(text)
		attend() // the client knows its session before it hears anything in it
		return nil
	}
	if isAnswer && x.m.version != "" && x.m.method == "tools/list" {
		x.mirrors.learnTools(text)
	}
	x.writeMessage(text)
	return nil
}

var (
	errNoSession = errors.New("the server does not know the session")
	errNoAnswer  = errors.New("the server took the request for one that wants no answer")
)

// laterError is a refusal without any effect, with the time to wait before a retry.
type laterError struct {
	*Problem
	after time.Duration
}

func (e *laterError) Unwrap() error { return e.Problem }

func withRetryAfter(p *Problem, response *http.Response) error {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 || (p.Status != http.StatusTooManyRequests && p.Status != http.StatusServiceUnavailable) {
		return p
	}
	return &laterError{p, time.Duration(seconds) * time.Second}
}

// isRetryable reports whether a refused request may be sent again: the server says so, or the request is harmless and
// a proxy says that the server is away.
func isRetryable(err error, harmless bool) bool {
	if _, ok := errors.AsType[*laterError](err); ok {
		return true
	}
	p, ok := errors.AsType[*Problem](err)
	return ok && harmless && p.Status >= http.StatusInternalServerError
}

// pauses are the waits between attempts to reach a server that is away.
type pauses struct {
	step, left time.Duration
	max        time.Duration
}

func (b *Bridge) newPauses() *pauses {
	return &pauses{step: b.Retry, max: 20 * b.Retry, left: b.Patience}
}

// waitNext waits before the next attempt. It returns false when no time is left.
func (p *pauses) waitNext(ctx context.Context, err error) bool {
	delay := p.step
	if later, ok := errors.AsType[*laterError](err); ok {
		delay = max(delay, later.after)
	}
	if delay > p.left {
		return false
	}
	p.left -= delay
	p.step = min(2*p.step, p.max)
	return pause.For(ctx, delay) == nil
}

// describe names a message for the log.
func (m *message) describe() string {
	switch {
	case m.opaque:
		return "a message that is no JSON-RPC"
	case m.method == "":
		return "a response"
	case m.params.Name != "":
		return clipText(m.method) + " " + clipText(m.params.Name)
	}
	return clipText(m.method)
}

func clipText(text string) string {
	const shown = 100
	if len(text) > shown {
		return text[:shown] + "…"
	}
	return text
}

// explainFailure is the error answer to a request that got none.
func (x *exchange) explainFailure(id []byte, err error) []byte {
	data := map[string]any{"code": "failed"}
	text := err.Error()
	lost, isLost := errors.AsType[*LostError](err)
	problem, isProblem := errors.AsType[*Problem](err)
	switch {
	case isLost && x.callID != "":
		data["code"], data["call_id"] = "connection_lost", x.callID
		text = fmt.Sprintf("The connection to Holdpoint was lost: %v. The call goes on; to get its outcome, call %s with {\"call_id\": %q}.",
			lost.Err, awaitTool, x.callID)
	case isLost && !lost.Sent:
		data["code"] = "unreachable"
		text = fmt.Sprintf("Holdpoint cannot be reached: %v. The request was not sent.", lost.Err)
	case isLost && x.m.method == "tools/call":
		data["code"] = "connection_lost"
		text = fmt.Sprintf("The connection to Holdpoint was lost: %v. The call may be on its way, and may be executed: find out before you repeat it.", lost.Err)
	case isLost:
		data["code"] = "connection_lost"
		text = fmt.Sprintf("The connection to Holdpoint was lost: %v.", lost.Err)
	case isProblem:
		data["code"], data["status"] = "refused", problem.Status
		text = fmt.Sprintf("Holdpoint refused the request: %v.", problem)
		if problem.Status == http.StatusUnauthorized || problem.Status == http.StatusForbidden {
			text += " The key or token of holdpoint connect (HOLDPOINT_TOKEN) has to be one of agent " + x.Agent + ", or of a person who may act as it."
		}
	case errors.Is(err, errNoSession):
		data["code"] = "session_lost"
		text = fmt.Sprintf("The session is lost: %v. The request was not executed. Connect again.", err)
	}
	return makeRefusal(id, text, data)
}
