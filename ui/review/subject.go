package review

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
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
	access     identity.Access      // of the reader
	now        time.Time            // by the database's clock
	pending    bool                 // a call is pending, this one or another
	viewing    []uuid.UUID          // those who have it on the screen
	viewers    []string             // their names, without the reader's
	reviewers  []identity.Eligible  // who can be asked to decide a pending call
	comments   []approval.Comment
	led        *converse.Context // the message and the reply that led to it; nil: not known
	own        bool              // it was made on behalf of the reader, who may not decide such calls
	secrets    *secretfield.Rules
	hidden     int                  // secrets in the arguments, which have to be revealed before an approval
	unseen     bool                 // the exact request is hidden too
	revealed   bool                 // the reader has revealed the secrets
	second     bool                 // a second reviewer has to approve an edit
	ownEdit    bool                 // the reader counts as the editor of the pending edit
	wrote      bool                 // the reader is its editor
	invited    bool                 // only the person whose call it is vouches for the reader
	limit      *identity.LimitError // the call is outside the limit of the reader's role; nil: it is not
	edited     bool                 // call has the arguments of an edit in preview
	proposing  bool                 // the edit in preview needs a second reviewer

	tally      *call.Tally       // the votes; nil: the call has no policies
	voter      policy.Voter      // the reader, if the call has policies
	conditions map[string]string // of the rules that judged the call, by their names

	place     string               // begins the ids of its arguments on a page with several calls; empty: on its own page
	questions []call.AskedQuestion // of the call's server
	evidence  []evidence.Entry     // about the arguments of a pending call

	people map[uuid.UUID]identity.Person // those who made and decided it
	notes  map[uuid.UUID][]view.Badge    // about them
}

// readSubject reads a call with the data that a decision needs.
func (h *reader) readSubject(ctx context.Context, access identity.Access, id uuid.UUID) (*subject, error) {
	s, err := h.loadSubject(ctx, access, id)
	if err != nil {
		return nil, err
	}
	return s, h.completeSubject(ctx, s, &pgx.Batch{})
}

// loadSubject reads the state of a call in one round trip. The data of the tool is usually cached.
func (h *reader) loadSubject(ctx context.Context, access identity.Access, id uuid.UUID) (*subject, error) {
	s := &subject{access: access}
	found, err := h.calls.GetReviewed(ctx, id, func(batch *pgx.Batch) {
		h.presence.QueueViewers(batch, id, &s.viewing)
		converse.QueueContext(batch, id, &s.led)
	})
	if err != nil {
		return nil, err
	}
	s.call, s.approval, s.questions, s.comments = found.Call, found.Approval, found.Questions, found.Comments
	s.now, s.pending = found.Now, found.Pending
	if err := h.addTool(ctx, s); err != nil {
		return nil, err
	}
	if s.hasPolicies() {
		tallies, err := h.calls.Tallies(ctx, s.approval)
		if err != nil {
			return nil, err
		}
		s.tally = tallies[s.call.ID]
		voters, err := call.ReadVoters(ctx, h.pool, access.Person.ID)
		if err != nil {
			return nil, err
		}
		s.voter = voters[0]
	}
	secrets, err := h.calls.ReadSecrets(ctx, s.call)
	if err != nil {
		return nil, err
	}
	s.secrets = secrets[s.call.ID]
	s.hidden = s.secrets.Count(s.call.Arguments)
	if s.isPending() && access.Has(identity.Reviewer) {
		if s.reviewers, err = h.identity.Reviewers(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// completeSubject reads the people of a call and the relation of the reader to it, in one round trip with the reads of the batch.
func (h *reader) completeSubject(ctx context.Context, s *subject, batch *pgx.Batch) error {
	reader := s.access.Person.ID
	var ties identity.Ties
	var shown *time.Time
	h.calls.QueueTies(batch, &s.call, reader, &ties)
	s.people = map[uuid.UUID]identity.Person{}
	involved, others := s.listPeople()
	identity.QueuePeople(batch, slices.Concat(involved, others), s.people)
	if s.conditions = map[string]string{}; len(s.call.Rules) > 0 {
		agent.QueueConditions(batch, s.call.Rules, s.conditions)
	}
	if s.hidden > 0 {
		audit.QueueLast(batch, s.call.ID, reader, audit.CallRevealed, &shown)
	}
	err := h.pool.SendBatch(ctx, batch).Close()
	if err != nil {
		return fmt.Errorf("read call %s: %w", s.call.ID, err)
	}
	s.names = present.DisplayNames(s.people)
	if s.notes, err = h.PersonNotes(ctx, s.findPeople(involved)); err != nil {
		return err
	}
	for _, id := range s.viewing {
		if id != reader {
			s.viewers = append(s.viewers, present.PersonName(id, s.names))
		}
	}
	switch err := h.calls.CheckTies(ctx, &s.call, ties); {
	case errors.As(err, &s.limit):
	case errors.Is(err, approval.ErrSelfApproval):
		s.own = true
	case errors.Is(err, approval.ErrInvitedApproval):
		s.invited = true
	case err != nil:
		return err
	}
	if err := h.addEditors(ctx, s, reader); err != nil || s.hidden == 0 {
		return err
	}
	outgoing, err := s.call.Outgoing()
	s.unseen = outgoing != nil
	if shown != nil { // before the edit they were others
		edited := s.approval != nil && s.approval.EditedAt != nil && s.approval.EditedBy != reader
		s.revealed = !edited || shown.After(*s.approval.EditedAt)
	}
	return err
}

// listPeople returns the people who made and decided the call, and others whose names its page shows.
func (s *subject) listPeople() (involved, others []uuid.UUID) {
	involved = append(involved, s.call.PrincipalID)
	if s.approval != nil {
		involved = append(involved, s.approval.DecidedBy, s.approval.EditedBy, s.approval.HeldBy, s.approval.AssignedBy)
	}
	if s.call.Resolution != nil {
		involved = append(involved, s.call.Resolution.By)
	}
	for i := range s.questions {
		involved = append(involved, s.questions[i].DecidedBy)
	}
	others = slices.Concat(others, s.viewing, s.listVoters())
	for i := range s.comments {
		others = append(others, s.comments[i].By)
	}
	for i := range s.reviewers {
		others = append(others, s.reviewers[i].Person)
	}
	if s.led != nil && s.led.Message != nil {
		others = append(others, s.led.Message.By)
	}
	return involved, others
}

// findPeople returns those people of the call that are known, each once.
func (s *subject) findPeople(ids []uuid.UUID) []identity.Person {
	known := make(map[uuid.UUID]identity.Person, len(ids))
	for _, id := range ids {
		if person, ok := s.people[id]; ok {
			known[id] = person
		}
	}
	return slices.Collect(maps.Values(known))
}

// addEditors adds whether an edit of a pending call needs a second reviewer, and whether the reader made it.
func (h *reader) addEditors(ctx context.Context, s *subject, reader uuid.UUID) error {
	if !s.isPending() {
		return nil
	}
	switch skill, _, err := h.agents.Skill(ctx, s.call.SkillID); {
	case errors.Is(err, agent.ErrNotFound): // the call will not be sent in any case
		s.second = true
	case err != nil:
		return err
	default:
		s.second = s.hasPolicies() || skill.EditNeedsSecond(s.call.Tool)
	}
	if !s.editWaits() {
		return nil
	}
	var err error
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
			state += ".escalated" + strconv.Itoa(len(s.approval.EscalatedTimes))
		}
		if s.editWaits() {
			state += "." + s.approval.Digest.String()[:16]
		}
		if s.approval.HeldAt != nil {
			state += "." + strconv.FormatInt(s.approval.HeldAt.UnixMicro(), 36)
		}
	}
	if s.approval != nil {
		state += "." + strconv.Itoa(s.approval.Comments) + s.hashVotes()
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

// identifyPerson returns the IDs of a person of the call, or nil if the person is unknown.
func (s *subject) identifyPerson(id uuid.UUID) *view.Who {
	person, ok := s.people[id]
	if !ok {
		return nil
	}
	return &view.Who{ID: id.String(), Issuer: person.Issuer, Subject: person.Subject, Notes: s.notes[id]}
}
