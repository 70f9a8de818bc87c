package mcpserver

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// listener is what the response wants to hear of its call. Most want nothing.
func (w *wait) listener() call.Listener {
	x := w.x
	var l call.Listener
	if x.can.ask() {
		l.Asked = w.asked
	}
	if w.attends.parked() {
		l.Reviewing = w.reviews
	}
	if w.attends.task || x.stream && (x.msg.meta.progressToken != nil || x.wantsLog) {
		l.Event = w.event
	}
	return l
}

// reviews takes until when a reviewer decides about a question of the call, and tells the client when that begins.
func (w *wait) reviews(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begins := w.reviewing.IsZero() && !until.IsZero()
	if w.reviewing = until; begins {
		w.attends.status = call.Executing
	}
	if !begins || w.over || !w.x.stream {
		return
	}
	if err := w.signOfLife(w.x.Now()); err != nil {
		w.cancel(errGone)
	}
}

// event passes on what a skill's server says while it works on the call.
func (w *wait) event(e call.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, token := w.x, w.x.msg.meta.progressToken
	var err error
	switch {
	case w.over:
	case e.Kind == call.EventTask && w.attends.task:
		w.cancel(errTask)
	case e.Kind == call.EventProgress && token != nil && x.stream:
		if params := w.progress.server(e.Params); params != nil {
			if err = x.beginStream(); err == nil {
				err = x.sendProgress(token, params)
			}
		}
	case e.Kind == call.EventLog && x.wantsLog:
		if err = x.beginStream(); err == nil {
			err = x.event([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":`), e.Params, []byte("}"))
		}
	}
	if err != nil {
		w.cancel(errGone)
	}
}

// progress sees to it that the progress of one request only grows: first ours, the seconds that it waits for people, then
// its server's, which begins anew.
type progress struct {
	sent    bool
	last    float64
	offset  float64
	servers bool // the server has told of its own
}

// own is ours.
func (p *progress) own(waited time.Duration, message string) []byte {
	p.sent, p.last = true, waited.Seconds()
	params := strconv.AppendFloat([]byte(`"progress":`), p.last, 'f', -1, 64)
	return appendString(append(params, `,"message":`...), message)
}

// server is the server's, moved to where ours ended; nil: it is no progress.
func (p *progress) server(raw json.RawMessage) []byte {
	var told struct {
		Progress *float64 `json:"progress"`
		Total    *float64 `json:"total"`
		Message  string   `json:"message"`
	}
	if json.Unmarshal(raw, &told) != nil || told.Progress == nil {
		return nil
	}
	if !p.servers && p.sent {
		p.offset = p.last
		if *told.Progress <= 0 {
			p.offset++ // its first step would be none
		}
	}
	value := *told.Progress + p.offset
	if p.sent && value <= p.last {
		return nil
	}
	p.sent, p.servers, p.last = true, true, value
	params := strconv.AppendFloat([]byte(`"progress":`), value, 'f', -1, 64)
	if told.Total != nil {
		params = strconv.AppendFloat(append(params, `,"total":`...), *told.Total+p.offset, 'f', -1, 64)
	}
	if told.Message != "" {
		params = appendString(append(params, `,"message":`...), plain.Visible(told.Message, maxReason))
	}
	return params
}
