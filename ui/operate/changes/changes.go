// Package changes owns the pages about changes that wait for a second operator.
package changes

import (
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Config is required in full.
type Config struct {
	Shell   *shell.Shell
	Calls   *call.Service
	Control *dualcontrol.Service
}

// Handler shows changes and lets operators decide them.
type Handler struct {
	*shell.Shell

	calls   *call.Service
	control *dualcontrol.Service
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{Shell: cfg.Shell, calls: cfg.Calls, control: cfg.Control}
}

// maxNote bounds a note, in characters.
const maxNote = 2000

// ShowChanges lists changes, newest first.
func (h *Handler) ShowChanges(w http.ResponseWriter, r *http.Request) {
	before, err := uuid.Parse(r.URL.Query().Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	found, next, err := h.control.List(r.Context(), before, 0, false)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	var people []uuid.UUID
	for i := range found {
		people = append(people, found[i].ProposedBy, found[i].Subject)
	}
	names, err := h.Names(r.Context(), people...)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	list := List{Newest: before == uuid.Nil, On: h.control.IsOn()}
	for i := range found {
		c := &found[i]
		list.Rows = append(list.Rows, Row{
			URL: present.ChangeURL(c.ID), Title: titleOf(c, names), Status: statusBadge(c.Status), At: c.ProposedAt, By: present.PersonName(c.ProposedBy, names),
		})
	}
	if next != uuid.Nil {
		list.Next = present.ChangesURL + "?before=" + next.String()
	}
	h.Render(w, r, http.StatusOK, ListPage(h.Page(r, view.SectionChanges, text.ChangesTitle(), pulse), list))
}

// ShowChange shows a change with its differences.
func (h *Handler) ShowChange(w http.ResponseWriter, r *http.Request) {
	h.answerWithChange(w, r, http.StatusOK, nil)
}

func (h *Handler) answerWithChange(w http.ResponseWriter, r *http.Request, status int, notice *view.Notice) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		h.Fail(w, r, dualcontrol.ErrNotFound)
		return
	}
	c, err := h.control.Get(r.Context(), id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	names, err := h.Names(r.Context(), c.ProposedBy, c.DecidedBy, c.Subject)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v := Change{Title: titleOf(&c, names), URL: present.ChangeURL(c.ID), Status: statusBadge(c.Status), Notice: notice, Pending: c.Status == dualcontrol.Pending}
	if v.Pending {
		if v.MayApprove, err = h.control.MayApprove(r.Context(), &c, access.Person.ID); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	if notice == nil && r.Method == http.MethodGet && r.URL.Query().Get("done") == shell.ChangeProposed {
		v.Notice = &view.Notice{Level: view.Info, Title: text.ChangesProposedNow(), Text: text.ChangesProposedNext()}
	}
	v.Own = c.ProposedBy == access.Person.ID
	v.Facts = []view.Fact{
		{Name: text.ChangesBy(), Text: text.Literal(present.PersonName(c.ProposedBy, names))},
		{Name: text.ChangesAt(), Time: &c.ProposedAt},
	}
	if v.Pending {
		v.Facts = append(v.Facts, view.Fact{Name: text.ChangesExpires(), Time: &c.ExpiresAt})
	}
	if c.DecidedAt != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.ChangesDecidedBy(), Text: text.Literal(present.PersonName(c.DecidedBy, names))},
			view.Fact{Name: text.ChangesDecidedAt(), Time: c.DecidedAt})
	}
	if c.Note != "" {
		v.Facts = append(v.Facts, view.Fact{Name: text.ChangesNote(), Text: text.Literal(c.Note)})
	}
	if c.Kind == dualcontrol.Person {
		v.ThingURL = present.MemberURL(c.Subject)
	}
	if c.Kind == dualcontrol.Rule {
		v.ThingURL = present.RuleURL(c.Name)
	}
	if c.Kind == dualcontrol.Skill && c.Action == "update" {
		v.ThingURL = present.SkillURL(c.Subject)
	}
	if from := c.FromCall(); from != uuid.Nil {
		v.ThingURL = present.CallURL(from)
	}
	for _, f := range c.Fields {
		v.Fields = append(v.Fields, Field{Name: f.Field, Old: hostile.Fold(f.Old, hostile.Limits{}), New: hostile.Fold(f.New, hostile.Limits{}), HasOld: f.Old != "", HasNew: f.New != ""})
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, status, ChangePage(h.Page(r, view.SectionChanges, v.Title, pulse), v))
}

// Approve makes a change that another operator proposed.
func (h *Handler) Approve(w http.ResponseWriter, r *http.Request) {
	h.decide(w, r, func(by, id uuid.UUID, note string) error {
		_, err := h.control.Approve(r.Context(), by, id, note)
		return err
	})
}

// Reject ends a change without making it.
func (h *Handler) Reject(w http.ResponseWriter, r *http.Request) {
	h.decide(w, r, func(by, id uuid.UUID, note string) error {
		_, err := h.control.Reject(r.Context(), by, id, note)
		return err
	})
}

func (h *Handler) decide(w http.ResponseWriter, r *http.Request, decide func(by, id uuid.UUID, note string) error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		h.Fail(w, r, dualcontrol.ErrNotFound)
		return
	}
	note := shell.Clean(r.PostFormValue("note"))
	if utf8.RuneCountInString(note) > maxNote {
		h.answerWithChange(w, r, http.StatusUnprocessableEntity, &view.Notice{Level: view.Danger, Title: text.ChangesNotDecided(), Text: text.ChangesNoteTooLong(maxNote), Draft: note})
		return
	}
	err = decide(shell.Actor(r).ID, id, note)
	var ended *dualcontrol.EndedError
	refused := func(status int, reason text.Message) {
		h.answerWithChange(w, r, status, &view.Notice{Level: view.Warn, Title: text.ChangesNotDecided(), Text: reason, Draft: note})
	}
	switch {
	case err == nil:
		shell.Redirect(w, r, present.ChangeURL(id))
	case errors.As(err, &ended):
		refused(http.StatusConflict, text.ChangesEnded())
	case errors.Is(err, dualcontrol.ErrStale):
		refused(http.StatusConflict, text.ChangesStaleHelp())
	case errors.Is(err, dualcontrol.ErrOwn):
		refused(http.StatusForbidden, text.ChangesOwn())
	case errors.Is(err, identity.ErrBothRoles):
		refused(http.StatusForbidden, text.MemberBothRoles())
	case errors.Is(err, approval.ErrSelfApproval):
		refused(http.StatusForbidden, text.ReviewProblemOwnCall())
	case errors.Is(err, approval.ErrInvitedApproval):
		refused(http.StatusForbidden, text.ReviewProblemInvited())
	default:
		h.Fail(w, r, err)
	}
}

// ExplainError explains why a change was not made.
func ExplainError(_ *http.Request, err error) (int, view.Notice, bool) {
	switch {
	case errors.Is(err, dualcontrol.ErrNotFound):
		return http.StatusNotFound, view.Notice{Title: text.ChangesNotFound()}, true
	case errors.Is(err, dualcontrol.ErrAlone):
		return http.StatusConflict, view.Notice{Level: view.Danger, Title: text.MemberNothingChanged(), Text: text.ChangesAlone()}, true
	case errors.Is(err, identity.ErrBothRoles):
		return http.StatusForbidden, view.Notice{Level: view.Danger, Title: text.MemberNothingChanged(), Text: text.MemberBothRoles()}, true
	case errors.Is(err, identity.ErrTokensOff):
		return http.StatusForbidden, view.Notice{Level: view.Danger, Title: text.MemberNothingChanged(), Text: text.TokenOff()}, true
	}
	return 0, view.Notice{}, false
}

// titleOf names a change.
func titleOf(c *dualcontrol.Change, names map[uuid.UUID]string) text.Message {
	name := view.Printable(c.Name)
	switch c.Kind {
	case dualcontrol.Skill:
		return text.ChangesOfSkill(name)
	case dualcontrol.Tool:
		return text.ChangesOfTool(name)
	case dualcontrol.Rule:
		return text.ChangesOfRule(name)
	case dualcontrol.Policy:
		return text.ChangesOfPolicy(name)
	case dualcontrol.Grant:
		return text.ChangesOfGrant(name)
	case dualcontrol.Invitation:
		return text.ChangesOfInvitation(name)
	case dualcontrol.Person:
	}
	return text.ChangesOfPerson(view.Printable(present.PersonName(c.Subject, names)))
}

func statusBadge(s dualcontrol.Status) view.Badge {
	switch s {
	case dualcontrol.Pending:
		return view.Badge{Word: text.ChangesPending(), Icon: "queue", Level: view.Warn}
	case dualcontrol.Approved:
		return view.Badge{Word: text.ChangesApproved(), Icon: "good", Level: view.Good}
	case dualcontrol.Rejected:
		return view.Badge{Word: text.ChangesRejected(), Icon: "rejected", Level: view.Danger}
	case dualcontrol.Replaced:
		return view.Badge{Word: text.ChangesReplaced(), Icon: "cancelled", Level: view.Quiet}
	case dualcontrol.Stale:
		return view.Badge{Word: text.ChangesStale(), Icon: "stale", Level: view.Quiet}
	case dualcontrol.Expired:
	}
	return view.Badge{Word: text.ChangesExpired(), Icon: "expired", Level: view.Quiet}
}
