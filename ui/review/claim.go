package review

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Teamwork has the holder of a call and the reviewers' comments.
type Teamwork struct {
	Holder     string // the reviewer who works on it or is asked to; empty: none
	AssignedBy string // empty: Holder claimed it
	Own        bool   // Holder is the reader
	MayClaim   bool   // the reader may claim, release and assign it
	MayComment bool
	Reviewers  []view.Option
	Comments   []Comment
	Draft      string // of a comment
	Error      text.Message
}

// isEmpty reports whether the part has nothing but its title, as for operators who do not review.
func (t *Teamwork) isEmpty() bool {
	return t.Holder == "" && !t.MayClaim && !t.MayComment && len(t.Comments) == 0
}

// Comment is a remark of a reviewer. Agents never see it.
type Comment struct {
	By   string
	At   time.Time
	Text hostile.Value
}

// wholeComment cuts nothing of a comment.
func wholeComment() hostile.Limits {
	return hostile.Limits{Lines: approval.MaxComment, Runes: approval.MaxComment, OpaqueRunes: approval.MaxComment}
}

// nextURL is the page that leads to the next call after one.
func nextURL(id uuid.UUID) string { return "/next?after=" + id.String() }

// leadsOn reports whether the page of a decided call leads to the next one.
func (s *subject) leadsOn() bool {
	return s.approval != nil && s.approval.Status != approval.Pending && s.access.Has(identity.Reviewer) && s.pending
}

// addTeamwork adds the holder and the comments of a call, and the link to the next call after a decision or a vote.
func (s *subject) addTeamwork(ctx context.Context, known *surroundings, v *Call) {
	if s.approval == nil {
		return
	}
	a, reviewer := s.approval, s.access.Has(identity.Reviewer)
	if s.leadsOn() || known.unvoted {
		v.NextURL, v.Advance = nextURL(a.CallID), known.choices.Advance
	}
	t := &Teamwork{MayComment: reviewer && a.Comments < approval.MaxComments}
	v.Teamwork = t
	if a.Status == approval.Pending && reviewer {
		_, t.MayClaim = s.mayDecide(s.access)
	}
	if a.Status == approval.Pending && a.HeldBy != uuid.Nil {
		t.Holder, t.Own = present.PersonName(a.HeldBy, s.names), a.HeldBy == s.access.Person.ID
		if a.AssignedBy != uuid.Nil {
			t.AssignedBy = present.PersonName(a.AssignedBy, s.names)
		}
	}
	if t.MayClaim {
		t.Reviewers = s.listReviewers(ctx)
	}
	for _, c := range s.comments {
		t.Comments = append(t.Comments, Comment{
			By: present.PersonName(c.By, s.names), At: c.At, Text: hostile.Fold(c.Text, wholeComment()),
		})
	}
}

// listReviewers returns the people whom the reader can assign.
func (s *subject) listReviewers(ctx context.Context) []view.Option {
	var options []view.Option
	for _, one := range s.reviewers {
		if id := one.Person; id != s.access.Person.ID && id != s.call.PrincipalID {
			options = append(options, view.Option{
				Value: id.String(), Text: text.Literal(view.Printable(present.PersonName(id, s.names))), Chosen: id == s.approval.HeldBy,
			})
		}
	}
	slices.SortFunc(options, func(a, b view.Option) int {
		return cmp.Compare(a.Text.In(ctx), b.Text.In(ctx))
	})
	return options
}

// Claim records that the reader works on a call.
func (h *CallHandler) Claim(w http.ResponseWriter, r *http.Request) {
	h.changeTeamwork(w, r, shown{}, func(id, by uuid.UUID) (call.Waiting, error) { return h.calls.Claim(r.Context(), id, by) })
}

// Release removes the claim or the assignment of a call.
func (h *CallHandler) Release(w http.ResponseWriter, r *http.Request) {
	h.changeTeamwork(w, r, shown{}, func(id, by uuid.UUID) (call.Waiting, error) { return h.calls.Release(r.Context(), id, by) })
}

// Assign asks another reviewer to decide a call.
func (h *CallHandler) Assign(w http.ResponseWriter, r *http.Request) {
	h.changeTeamwork(w, r, shown{commentError: text.ReviewAssignee()}, func(id, by uuid.UUID) (call.Waiting, error) {
		to, err := uuid.Parse(r.PostFormValue("person"))
		if err != nil {
			return call.Waiting{}, fault.Invalid("person", "must be a reviewer")
		}
		return h.calls.Assign(r.Context(), id, to, by, h.identity)
	})
}

// Comment adds a comment to a call.
func (h *CallHandler) Comment(w http.ResponseWriter, r *http.Request) {
	comment, complaint := readReason(r, "comment")
	how := shown{comment: comment, commentError: text.ReviewCommentRefused(approval.MaxComment)}
	if !complaint.IsZero() {
		how.commentError = complaint
		h.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
		return
	}
	h.changeTeamwork(w, r, how, func(id, by uuid.UUID) (call.Waiting, error) { return h.calls.Comment(r.Context(), id, by, comment) })
}

// changeTeamwork calls change and shows the call. refused is shown after an invalid form.
func (h *CallHandler) changeTeamwork(w http.ResponseWriter, r *http.Request, refused shown, change func(id, by uuid.UUID) (call.Waiting, error)) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	_, err = change(id, access.Person.ID)
	var conflict *approval.ConflictError
	var limit *identity.LimitError
	switch {
	case err == nil:
		shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(id)))
	case errors.Is(err, approval.ErrComments):
		refused.commentError = text.ReviewCommentsFull(approval.MaxComments)
		h.answerWithCall(w, r, http.StatusConflict, refused)
	case errors.As(err, &conflict): // the page shows the decision
		h.answerWithCall(w, r, http.StatusConflict, shown{})
	case errors.Is(err, approval.ErrSelfApproval), errors.Is(err, approval.ErrInvitedApproval), errors.As(err, &limit): // the page says why
		h.answerWithCall(w, r, http.StatusForbidden, shown{})
	default:
		if _, invalid := errors.AsType[*fault.InvalidError](err); invalid {
			h.answerWithCall(w, r, http.StatusUnprocessableEntity, refused)
			return
		}
		h.Fail(w, r, err)
	}
}
