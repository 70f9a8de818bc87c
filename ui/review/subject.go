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
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// subject is a call with all data of its page.
type subject struct {
	call       call.Call
	approval   *approval.Approval // nil: none was needed
	definition *tool.Definition   // nil: not stored
	accepted   *tool.Definition   // the definition accepted before; nil: the same, or none
	current    bool               // the server still offers the definition of the call
	offered    *tool.Definition   // the server's new definition; nil: the same, or none
	changed    time.Time          // the time of the last change of the definition
	risk       present.Risk
	names      map[uuid.UUID]string // of people
	pulse      approval.Pulse
	viewers    []string // other people who have it on the screen
	own        bool     // it was made on behalf of the reader, who may not decide such calls
	secrets    *secretfield.Rules
	hidden     int  // secrets in the arguments, which have to be revealed before an approval
	unseen     bool // the exact request is hidden too
	revealed   bool // the reader has revealed the secrets
	second     bool // a second reviewer has to approve an edit
	ownEdit    bool // the reader counts as the editor of the pending edit
	wrote      bool // the reader is its editor
	invited    bool // only the person whose call it is vouches for the reader
	edited     bool // call has the arguments of an edit in preview
	proposing  bool // the edit in preview needs a second reviewer

	questions []call.AskedQuestion // of the call's server
	evidence  []evidence.Entry     // about the arguments of a pending call

	people map[uuid.UUID]identity.Person // those who made and decided it
	notes  map[uuid.UUID][]view.Badge    // about them
}

func (h *reader) readSubject(ctx context.Context, access identity.Access, id uuid.UUID) (*subject, error) {
	s := &subject{}
	var people []uuid.UUID
	waiting, err := h.calls.GetApproval(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound):
		if s.call, err = h.calls.Get(ctx, call.Viewer{}, id); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		s.call, s.approval = waiting.Call, &waiting.Approval
		people = append(people, waiting.Approval.DecidedBy, waiting.Approval.EditedBy, waiting.Approval.HeldBy, waiting.Approval.AssignedBy)
	}
	people = append(people, s.call.PrincipalID)
	if s.call.Resolution != nil {
		people = append(people, s.call.Resolution.By)
	}
	if s.questions, err = h.calls.ListQuestions(ctx, id); err != nil {
		return nil, err
	}
	for i := range s.questions {
		people = append(people, s.questions[i].DecidedBy)
	}
	if err := h.addPeople(ctx, s, people...); err != nil {
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
	if err := h.addTool(ctx, s); err != nil {
		return nil, err
	}
	return s, h.addReader(ctx, s, access.Person.ID)
}

// addReader adds the relation of the reader to the call.
func (h *reader) addReader(ctx context.Context, s *subject, reader uuid.UUID) error {
	switch err := h.calls.CheckDecider(ctx, &s.call, reader); {
	case errors.Is(err, approval.ErrSelfApproval):
		s.own = true
	case errors.Is(err, approval.ErrInvitedApproval):
		s.invited = true
	case err != nil:
		return err
	}
	if err := h.addEditors(ctx, s, reader); err != nil {
		return err
	}
	secrets, err := h.calls.ReadSecrets(ctx, s.call)
	if err != nil {
		return err
	}
	s.secrets = secrets[s.call.ID]
	if s.hidden = s.secrets.Count(s.call.Arguments); s.hidden == 0 {
		return nil
	}
	outgoing, err := s.call.Outgoing()
	if err != nil {
		return err
	}
	s.unseen = outgoing != nil
	shown, err := audit.List(ctx, h.pool, audit.Filter{Subject: s.call.ID, Actors: []uuid.UUID{reader}, Action: audit.CallRevealed, Limit: 1})
	if len(shown) > 0 { // before the edit they were others
		edited := s.approval != nil && s.approval.EditedAt != nil && s.approval.EditedBy != reader
		s.revealed = !edited || shown[0].At.After(*s.approval.EditedAt)
	}
	return err
}

// addEditors adds whether an edit of a pending call needs a second reviewer, and whether the reader made it.
func (h *reader) addEditors(ctx context.Context, s *subject, reader uuid.UUID) error {
	if !s.isPending() {
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

// approvalEditor returns the editor of an edit that needs a second reviewer, or uuid.Nil.
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

// editWaits reports whether a reviewer's edit waits for a second reviewer.
func (s *subject) editWaits() bool {
	return s.isPending() && s.approval.EditedBy != uuid.Nil
}

func (s *subject) isPending() bool { return s.approval != nil && s.approval.Status == approval.Pending }

// hashState returns a text that changes with the page of the call, except for its countdown.
func (s *subject) hashState() string {
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
	if s.isPending() {
		state += "." + strconv.FormatInt(s.approval.Deadline.UnixMilli(), 36)
		if s.approval.EscalatedAt != nil {
			state += ".escalated"
		}
		if s.editWaits() {
			state += "." + s.approval.Digest.String()[:16]
		}
		if s.approval.HeldAt != nil {
			state += "." + strconv.FormatInt(s.approval.HeldAt.UnixMicro(), 36)
		}
	}
	if s.approval != nil {
		state += "." + strconv.Itoa(s.approval.Comments)
	}
	return state
}

// addTool adds the definitions and the risk of the call's tool.
func (h *reader) addTool(ctx context.Context, s *subject) error {
	status, err := h.discovery.Status(ctx, s.call.SkillID, s.call.Tool)
	if err != nil {
		return err
	}
	s.current, s.changed = status.Known && status.Current == s.call.Pin, status.Changed
	definitions, err := h.discovery.Definitions(ctx, slices.DeleteFunc([]tool.Pin{s.call.Pin, status.Accepted, status.Current}, tool.Pin.IsZero))
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

// addPeople adds the people of a call.
func (h *reader) addPeople(ctx context.Context, s *subject, ids ...uuid.UUID) error {
	people, err := h.People(ctx, ids...)
	if err != nil {
		return err
	}
	s.people, s.names = people, present.DisplayNames(people)
	s.notes, err = h.PersonNotes(ctx, slices.Collect(maps.Values(people)))
	return err
}

// identifyPerson returns the IDs of a person of the call, or nil if the person is unknown.
func (s *subject) identifyPerson(id uuid.UUID) *view.Who {
	person, ok := s.people[id]
	if !ok {
		return nil
	}
	return &view.Who{ID: id.String(), Issuer: person.Issuer, Subject: person.Subject, Notes: s.notes[id]}
}
