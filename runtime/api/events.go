package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/converse"
)

// The names of events that are no entries. They have no id: what they tell is told anew to whoever comes back.
const (
	eventState   = "state"
	eventDelta   = "delta"
	eventRestart = "restart"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

const (
	// streamTimeout bounds each write to a client: one that does not read holds nothing for ever.
	streamTimeout = 30 * time.Second
	// streamPiece is how much is collected before it is written, in bytes.
	streamPiece = 64 << 10
	// streamRetry is how long a browser waits before it comes back, in milliseconds.
	streamRetry = "1000"
)

// Delta is what is new of the reply that the model is giving.
type Delta struct {
	Step   int64  `json:"step"`   // of another step: of another reply, or of another attempt at it
	Offset int    `json:"offset"` // how many bytes of the reply, in UTF-8, came before; 0: all of it so far
	Text   string `json:"text"`
}

type followInput struct {
	ByID
	After       int64  `query:"after" minimum:"0" doc:"Begin after the entry of this number; left out: with the first."`
	LastEventID string `header:"Last-Event-ID" doc:"The id of the last event that was received; it counts more than after."`
}

// after is where to begin.
func (i *followInput) after() (after int64, field string, err error) {
	if i.LastEventID == "" {
		return i.After, "query.after", nil
	}
	const header = "header.Last-Event-ID"
	after, err = strconv.ParseInt(i.LastEventID, 10, 64)
	if err != nil || after < 0 {
		return 0, header, invalid(header, "expected the id of an event of this stream")
	}
	return after, header, nil
}

func (a *API) followConversation(ctx context.Context, input *followInput) (*huma.StreamResponse, error) {
	id, viewer, err := a.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	after, field, err := input.after()
	if err != nil {
		return nil, err
	}
	now, err := a.converse.Get(ctx, viewer, id)
	if err != nil {
		return nil, ofClient(err)
	}
	if after > now.Seq {
		return nil, invalid(field, "expected at most %d, the number of the last entry", now.Seq)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		(&stream{api: a, r: r, w: w, control: http.NewResponseController(w), id: id, fresh: true}).follow(viewer, after)
	}}, nil
}

// stream is one client that follows a conversation.
type stream struct {
	api     *API
	r       *http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	id      uuid.UUID
	batch   bytes.Buffer // not written yet
	fresh   bool         // nothing of this batch was looked at
	step    int64        // of the reply under way
	told    string       // what was told of it
}

var errNotAllowed = errors.New("the caller may not see it any more")

func (s *stream) follow(viewer converse.Viewer, after int64) {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	defer context.AfterFunc(s.api.draining, cancel)()
	h := s.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // no proxy shall hold events back
	s.w.WriteHeader(http.StatusOK)
	if s.api.draining.Err() != nil {
		return // and it comes back, elsewhere
	}
	s.batch.WriteString("retry: " + streamRetry + "\n\n")
	err := s.api.converse.Follow(ctx, viewer, s.id, after, func(e converse.Event) error { return s.take(ctx, e) })
	if errors.Is(err, errBroken) || errors.Is(err, errNotAllowed) || errors.Is(err, converse.ErrNotFound) || ctx.Err() != nil {
		s.api.log.DebugContext(ctx, "a follower left", "conversation", s.id, "err", err)
	} else {
		s.api.log.WarnContext(ctx, "a follower was let go", "conversation", s.id, "err", err) // it comes back
	}
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection may serve other requests
}

// take passes an event on. Whether the caller still may see it is asked for each batch.
func (s *stream) take(ctx context.Context, e converse.Event) error {
	if s.fresh {
		if err := s.recheck(ctx); err != nil {
			return err
		}
		s.fresh = false
	}
	switch {
	case e.Entry != nil:
		return s.entry(ctx, e.Entry)
	case e.Conversation != nil:
		return s.state(e.Conversation)
	case e.Draft != nil:
		return s.draft(e.Draft)
	}
	s.fresh = true
	if s.batch.Len() == 0 {
		s.batch.WriteString(": keepalive\n\n")
	}
	return s.flush()
}

// recheck authenticates the caller again: a credential may have been revoked, or a right been taken away.
func (s *stream) recheck(ctx context.Context) error {
	who, err := s.api.authenticate(s.r)
	if err == nil {
		_, _, err = s.api.visibleConversation(context.WithValue(ctx, callerKey{}, who), s.id.String())
	}
	if err != nil {
		return errors.Join(errNotAllowed, err)
	}
	return nil
}

func (s *stream) entry(ctx context.Context, e *converse.Entry) error {
	switch e.Kind {
	case converse.KindAssistant:
		s.told = "" // this is the reply
	case converse.KindCall: // of an earlier reply
	default:
		if err := s.restart(); err != nil {
			return err
		}
	}
	view, err := s.api.entryViews(ctx, *e)
	if err != nil {
		return err
	}
	s.batch.WriteString("id: " + strconv.FormatInt(e.Seq, 10) + "\n")
	return s.event(string(e.Kind), view(*e))
}

func (s *stream) state(c *converse.Conversation) error {
	if c.Status != converse.Running {
		if err := s.restart(); err != nil {
			return err
		}
	}
	return s.event(eventState, withPending(c))
}

// restart says that what was told of the reply is void, if anything was.
func (s *stream) restart() error {
	if s.told == "" {
		return nil
	}
	s.told = ""
	return s.event(eventRestart, struct {
		Step int64 `json:"step"`
	}{s.step})
}

// draft tells what is new of the reply: the source has the whole text so far.
func (s *stream) draft(d *converse.Draft) error {
	if d.Step != s.step || !strings.HasPrefix(d.Text, s.told) {
		if err := s.restart(); err != nil {
			return err
		}
	}
	before := len(s.told)
	s.step, s.told = d.Step, d.Text
	if before == len(d.Text) {
		return nil
	}
	return s.event(eventDelta, Delta{Step: d.Step, Offset: before, Text: d.Text[before:]})
}

// event adds an event to the batch. Its JSON is one line: encoders write it so.
func (s *stream) event(name string, data any) error {
	s.batch.WriteString("event: " + name + "\ndata: ")
	if err := writeLine(&s.batch, data); err != nil {
		return err
	}
	s.batch.WriteByte('\n')
	if s.batch.Len() < streamPiece {
		return nil
	}
	return s.flush()
}

// errBroken: the client is gone, or does not read.
var errBroken = errors.New("the connection is broken")

// flush hands the batch to the network.
func (s *stream) flush() error {
	if err := s.control.SetWriteDeadline(s.api.now().Add(streamTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errBroken, err)
	}
	if _, err := s.batch.WriteTo(s.w); err != nil {
		return errors.Join(errBroken, err)
	}
	if s.batch.Cap() > 4*streamPiece {
		s.batch = bytes.Buffer{}
	}
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errBroken, err)
	}
	return nil
}
