package conversations

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

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

// eventName names a server-sent event: a [converse.Kind] for an entry, else one of the constants.
type eventName string

// The names of events other than entries. They have no id: a client that reconnects gets their content again.
const (
	eventState   eventName = "state"
	eventDelta   eventName = "delta"
	eventRestart eventName = "restart"
)

const (
	// streamTimeout limits each write to a client that does not read.
	streamTimeout = 30 * time.Second
	// streamPiece is the size of a batch, in bytes.
	streamPiece = 64 << 10
	// streamRetry is how long a browser waits before it reconnects, in milliseconds.
	streamRetry = "1000"
)

// Delta is the new part of the model's reply.
type Delta struct {
	Step   int64  `json:"step"`   // a new step is another reply, or another attempt at it
	Offset int    `json:"offset"` // how many bytes of the reply, in UTF-8, came before; 0: all of it so far
	Text   string `json:"text"`
}

type followInput struct {
	rest.ByID
	After       int64  `query:"after" minimum:"0" doc:"Start after the entry with this number; omitted: with the first."`
	LastEventID string `header:"Last-Event-ID" doc:"The id of the last received event; takes precedence over after."`
}

func (h *Handlers) followConversation(ctx context.Context, input *followInput) (*huma.StreamResponse, error) {
	id, viewer, err := h.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	after, field := input.After, "query.after"
	if input.LastEventID != "" {
		field = "header.Last-Event-ID"
		if after, err = strconv.ParseInt(input.LastEventID, 10, 64); err != nil || after < 0 {
			return nil, rest.InvalidField(field, "must be the id of an event of this stream")
		}
	}
	now, err := h.Converse.Get(ctx, viewer, id)
	if err != nil {
		return nil, ofClient(err)
	}
	if after > now.Seq {
		return nil, rest.InvalidField(field, "must be at most %d, the number of the last entry", now.Seq)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		(&stream{Handlers: h, r: r, w: w, control: http.NewResponseController(w), id: id, fresh: true}).followEntries(viewer, after)
	}}, nil
}

// stream is one client that follows a conversation.
type stream struct {
	*Handlers

	r       *http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	id      uuid.UUID
	batch   bytes.Buffer // not written yet
	fresh   bool         // the batch has just started
	step    int64        // of the reply under way
	told    string       // the text that was sent of it
}

var errNotAllowed = errors.New("the caller may no longer see the conversation")

func (s *stream) followEntries(viewer converse.Viewer, after int64) {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	defer context.AfterFunc(s.Draining, cancel)()
	h := s.w.Header()
	h.Set("Content-Type", rest.EventStream)
	h.Set("X-Accel-Buffering", "no") // no proxy shall hold events back
	s.w.WriteHeader(http.StatusOK)
	if s.Draining.Err() != nil {
		return // the client reconnects to another server
	}
	s.batch.WriteString("retry: " + streamRetry + "\n\n")
	err := s.Converse.Follow(ctx, viewer, s.id, after, func(e converse.Event) error { return s.takeEvent(ctx, e) })
	if errors.Is(err, errBroken) || errors.Is(err, errNotAllowed) || errors.Is(err, converse.ErrNotFound) || ctx.Err() != nil {
		s.Logger.DebugContext(ctx, "a follower left", "conversation", s.id, "err", err)
	} else {
		s.Logger.WarnContext(ctx, "a follower was let go", "conversation", s.id, "err", err) // it comes back
	}
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection may serve other requests
}

// takeEvent writes an event. For each batch it authenticates the caller again: the credential or a right may have been revoked.
func (s *stream) takeEvent(ctx context.Context, e converse.Event) error {
	if s.fresh {
		who, err := s.Authenticate(s.r)
		if err == nil {
			_, _, err = s.visibleConversation(rest.WithCaller(ctx, who), s.id.String())
		}
		if err != nil {
			return errors.Join(errNotAllowed, err)
		}
		s.fresh = false
	}
	switch {
	case e.Entry != nil:
		return s.sendEntry(ctx, e.Entry)
	case e.Conversation != nil:
		if e.Conversation.Status != converse.Running {
			if err := s.sendRestart(); err != nil {
				return err
			}
		}
		return s.addEvent(eventState, withPending(e.Conversation))
	case e.Draft != nil:
		return s.sendDraft(e.Draft)
	}
	s.fresh = true
	if s.batch.Len() == 0 {
		s.batch.WriteString(": keepalive\n\n")
	}
	return s.flushBatch()
}

func (s *stream) sendEntry(ctx context.Context, e *converse.Entry) error {
	switch e.Kind {
	case converse.KindAssistant:
		s.told = "" // this is the reply
	case converse.KindCall: // of an earlier reply
	default:
		if err := s.sendRestart(); err != nil {
			return err
		}
	}
	view, err := s.entryViews(ctx, *e)
	if err != nil {
		return err
	}
	s.batch.WriteString("id: " + strconv.FormatInt(e.Seq, 10) + "\n")
	return s.addEvent(eventName(e.Kind), view(*e))
}

// sendRestart tells the client to discard the deltas of the reply, if there were any.
func (s *stream) sendRestart() error {
	if s.told == "" {
		return nil
	}
	s.told = ""
	return s.addEvent(eventRestart, struct {
		Step int64 `json:"step"`
	}{s.step})
}

// sendDraft sends the new part of the reply. The source has the whole text so far.
func (s *stream) sendDraft(d *converse.Draft) error {
	if d.Step != s.step || !strings.HasPrefix(d.Text, s.told) {
		if err := s.sendRestart(); err != nil {
			return err
		}
	}
	before := len(s.told)
	s.step, s.told = d.Step, d.Text
	if before == len(d.Text) {
		return nil
	}
	return s.addEvent(eventDelta, Delta{Step: d.Step, Offset: before, Text: d.Text[before:]})
}

// addEvent adds an event to the batch. Its JSON has no line breaks: encoders write none.
func (s *stream) addEvent(name eventName, data any) error {
	s.batch.WriteString("event: " + string(name) + "\ndata: ")
	if err := rest.WriteLine(&s.batch, data); err != nil {
		return err
	}
	s.batch.WriteByte('\n')
	if s.batch.Len() < streamPiece {
		return nil
	}
	return s.flushBatch()
}

// errBroken: the client is gone, or does not read.
var errBroken = errors.New("the connection is broken")

// flushBatch writes the batch to the network.
func (s *stream) flushBatch() error {
	if err := s.control.SetWriteDeadline(s.Now().Add(streamTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
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
