package review

import (
	"context"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// subject is a call with everything that is said about it.
type subject struct {
	call       call.Call
	approval   *approval.Approval // nil: it never needed one
	definition *tool.Definition   // nil: not stored
	accepted   *tool.Definition   // what was accepted before; nil: the same, or none
	current    bool               // the server still offers the tool as it was called
	offered    *tool.Definition   // how it offers it since; nil: the same, or not at all
	changed    time.Time          // when the server began to offer the tool as it does now
	risk       present.Risk
	names      map[uuid.UUID]string // of people
	pulse      approval.Pulse
	viewers    []string // who else has it on the screen
	own        bool     // it was made on the reader's behalf, who may not decide about such calls
	hidden     int      // secrets among the arguments
	unseen     bool     // the very request is hidden with them, so that none of them is a small part of what is shown
	withheld   int      // of them, those that are not approved unseen
	revealed   bool     // the reader had them shown
	second     bool     // another reviewer than the editor approves an edit of it
	ownEdit    bool     // the reader counts as the editor of the edit that waits
	wrote      bool     // and is
	invited    bool     // the reader is known by the word of a person alone whose call it is
	edited     bool     // call has the arguments of an edit that the reader looks at
	proposing  bool     // likewise, and another reviewer approves it

	questions []call.AskedQuestion // of the call's server

	people map[uuid.UUID]identity.Person // who made and decided it
	notes  map[uuid.UUID][]view.Badge    // on them
}

func (h *reader) subject(ctx context.Context, access identity.Access, id uuid.UUID) (*subject, error) {
	s := &subject{}
	var err error
	if s.call, err = h.calls.Get(ctx, call.Viewer{}, id); err != nil {
		return nil, err
	}
	people := []uuid.UUID{s.call.PrincipalID}
	if s.call.Resolution != nil {
		people = append(people, s.call.Resolution.By)
	}
	waiting, err := h.calls.GetApproval(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound):
	case err != nil:
		return nil, err
	default: // read together, so that they do not contradict each other
		s.call, s.approval = waiting.Call, &waiting.Approval
		people = append(people, waiting.Approval.DecidedBy, waiting.Approval.EditedBy)
	}
	if s.questions, err = h.calls.ListQuestions(ctx, id); err != nil {
		return nil, err
	}
	for i := range s.questions {
		people = append(people, s.questions[i].DecidedBy)
	}
	if err := h.introduce(ctx, s, people...); err != nil {
		return nil, err
	}
	if s.pulse, err = h.calls.ReadPulse(ctx); err != nil {
		return nil, err
	}
	viewers, err := h.viewers.Viewers(ctx, id)
	if err != nil {
		return nil, err
	}
	s.viewers = shell.Others(viewers[id], access.Person.ID)
	if err := h.describe(ctx, s); err != nil {
		return nil, err
	}
	return s, h.about(ctx, s, access.Person.ID)
}

// about adds what the call is to whoever reads it.
func (h *reader) about(ctx context.Context, s *subject, reader uuid.UUID) error {
	switch err := h.calls.CheckDecider(ctx, &s.call, reader); {
	case errors.Is(err, approval.ErrSelfApproval):
		s.own = true
	case errors.Is(err, approval.ErrInvitedApproval):
		s.invited = true
	case err != nil:
		return err
	}
	if err := h.editing(ctx, s, reader); err != nil {
		return err
	}
	if s.hidden = s.secrets().Count(s.call.Arguments); s.hidden == 0 {
		return nil
	}
	outgoing, err := s.call.Outgoing()
	if err != nil {
		return err
	}
	if s.withheld = s.secrets().Withheld(s.call.Arguments); outgoing != nil {
		s.unseen, s.withheld = true, s.hidden
	}
	shown, err := audit.List(ctx, h.pool, audit.Filter{Subject: s.call.ID, Actors: []uuid.UUID{reader}, Action: audit.CallRevealed, Limit: 1})
	if len(shown) > 0 { // before the edit they were others
		edited := s.approval != nil && s.approval.EditedAt != nil && s.approval.EditedBy != reader
		s.revealed = !edited || shown[0].At.After(*s.approval.EditedAt)
	}
	return err
}

// editing adds who may approve an edit of a call that waits.
func (h *reader) editing(ctx context.Context, s *subject, reader uuid.UUID) error {
	if s.approval == nil || s.approval.Status != approval.Pending {
		return nil
	}
	var err error
	if s.second, err = h.calls.EditNeedsSecond(ctx, &s.call); err != nil || !s.editWaits() {
		return err
	}
	s.ownEdit, err = h.calls.MayBeEditor(ctx, s.approval.EditedBy, reader)
	s.wrote = s.approval.EditedBy == reader
	return err
}

// approvalEditor is who wrote an edit that takes a second reviewer; uuid.Nil: nobody did.
func (s *subject) approvalEditor() uuid.UUID {
	if s.approval == nil {
		return uuid.Nil
	}
	return s.approval.EditedBy
}

func (s *subject) editedAt() *time.Time {
	if s.approval == nil {
		return nil
	}
	return s.approval.EditedAt
}

// editWaits reports whether what waits is a reviewer's edit, which another has to approve.
func (s *subject) editWaits() bool {
	return s.approval != nil && s.approval.Status == approval.Pending && s.approval.EditedBy != uuid.Nil
}

// state differs when what is shown of the call does, but for its countdown.
func (s *subject) state() string {
	state := string(s.call.Status)
	if s.current {
		state += ".current"
	}
	if s.call.Resolution != nil {
		state += ".resolved"
	}
	if len(s.call.Late) > 0 {
		state += ".late"
	}
	var questions strings.Builder
	for i := range s.questions {
		questions.WriteString(".q" + string(s.questions[i].Status))
	}
	state += questions.String()
	if s.call.Status == call.NeedsConnection {
		state += "." + strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(s.call.Message))), 36)
	}
	if s.approval != nil && s.approval.Status == approval.Pending {
		state += "." + strconv.FormatInt(s.approval.Deadline.UnixMilli(), 36)
		if s.approval.EscalatedAt != nil {
			state += ".escalated"
		}
		if s.editWaits() {
			state += "." + s.approval.Digest.String()[:16]
		}
		sum := crc32.NewIEEE()
		for _, name := range s.viewers {
			_, _ = sum.Write([]byte(name + "\x00")) // never fails
		}
		state += "." + strconv.FormatUint(uint64(sum.Sum32()), 36)
	}
	return state
}

// describe adds what is known of the call's tool.
func (h *reader) describe(ctx context.Context, s *subject) error {
	status, err := h.discovery.Status(ctx, s.call.SkillID, s.call.Tool)
	if err != nil {
		return err
	}
	s.current, s.changed = status.Known && status.Current == s.call.Pin, status.Changed
	definitions, err := h.facts.DefinitionsOf(ctx, []call.Call{s.call}, status.Accepted, status.Current)
	if err != nil {
		return err
	}
	if d, ok := definitions[s.call.Pin]; ok {
		s.definition = &d
	}
	if d, ok := definitions[status.Accepted]; ok && status.Accepted != s.call.Pin {
		s.accepted = &d
	}
	if d, ok := definitions[status.Current]; ok && status.Known && !s.current {
		s.offered = &d
	}
	s.risk, err = present.ReadRisk(ctx, h.agents, &s.call, definitions[s.call.Pin])
	return err
}

// introduce adds who the people of a call are.
func (h *reader) introduce(ctx context.Context, s *subject, ids ...uuid.UUID) error {
	people, err := h.People(ctx, ids...)
	if err != nil {
		return err
	}
	s.people, s.names = people, present.DisplayNames(people)
	s.notes, err = h.PersonNotes(ctx, slices.Collect(maps.Values(people)))
	return err
}

// who is a person of the call by what does not change; nil: nobody, or a person who is not known.
func (s *subject) who(id uuid.UUID) *view.Who {
	person, ok := s.people[id]
	if !ok {
		return nil
	}
	return &view.Who{ID: id.String(), Issuer: person.Issuer, Subject: person.Subject, Notes: s.notes[id]}
}
