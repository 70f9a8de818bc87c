package review

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/review/jsonobject"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// The decisions that the form of similar calls sends.
const (
	verdictApprove = "approve"
	verdictReject  = "reject"
)

// ShowLike shows the pending calls that differ from one only in their arguments.
func (h *BatchHandler) ShowLike(w http.ResponseWriter, r *http.Request) {
	h.answerWithLike(w, r, http.StatusOK, nil)
}

// answerWithLike renders the pending calls that differ from one only in their arguments.
func (h *BatchHandler) answerWithLike(w http.ResponseWriter, r *http.Request, status int, notices []view.Notice) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	s, err := h.reader.readSubject(r.Context(), access, id)
	if err == nil && s.approval == nil {
		err = approval.ErrNotFound
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	waiting, err := h.calls.ListSimilar(r.Context(), s.approval, likeWindow)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	l, err := h.presentLike(r, access, s, waiting)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	l.Notices, l.Draft = notices, shell.Clean(r.PostFormValue(reasonField))
	page, err := h.reader.newPage(r, text.ReviewSimilarTitle())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, status, LikePage(page, l))
}

func (h *BatchHandler) presentLike(r *http.Request, access identity.Access, s *subject, waiting []call.Waiting) (Like, error) {
	l := Like{
		URL: present.CallURL(s.call.ID), Sentence: presentSentence(&s.call, s.names), Risk: s.risk.Badge, Alone: s.risk.Twice, Presets: listPresets(),
	}
	if len(waiting) == 0 {
		return l, nil
	}
	documents, subjects := make([][]byte, len(waiting)), make([]*subject, len(waiting))
	for i := range waiting {
		documents[i] = waiting[i].Call.Arguments
		var err error
		if subjects[i], err = h.reader.readSubject(r.Context(), access, waiting[i].Call.ID); err != nil {
			return l, err
		}
		if subjects[i].evidence, err = h.calls.ReadEvidence(r.Context(), &subjects[i].call); err != nil {
			return l, err
		}
	}
	common, own := []byte("{}"), documents
	if !slices.ContainsFunc(waiting, func(w call.Waiting) bool { return w.Call.Pin != s.call.Pin }) {
		common, own = jsonobject.Split(documents) // otherwise a secret of one call may be visible in another
	}
	limits := hostile.Folded()
	limits.Secrets = s.secrets
	if fields, err := hostile.ReadFields(common, limits); err == nil && len(waiting) > 1 && len(common) > len("{}") {
		l.Common = makeCard(s.place, &fields, subjects[0].evidence, typed.RecognizeDocument(common), s.secrets.Find(common), s.secrets.NamedByAgent(common))
	}
	columns := map[string]int{} // by name
	for i := range waiting {
		l.Rows = append(l.Rows, presentAlike(access, s.now, subjects[i], &waiting[i]))
		card := presentOwn(subjects[i], own[i], documents[i])
		if card == nil {
			l.Rows[i].MayApprove = false
			continue
		}
		one := &l.Rows[i]
		one.Cells, one.More, one.Notes, one.Alarms = [][]CardRow{}, card.More, card.Notes, card.Alarms
		for _, row := range card.Rows {
			name := nameColumn(row.Pointer)
			if row.Depth == 0 { // no arguments
				continue
			}
			at, known := columns[name]
			if !known {
				at = len(columns)
				columns[name] = at
				l.Columns = append(l.Columns, name)
			}
			for len(one.Cells) <= at {
				one.Cells = append(one.Cells, nil)
			}
			one.Cells[at] = append(one.Cells[at], row)
		}
	}
	for i := range l.Rows {
		for one := &l.Rows[i]; one.Cells != nil && len(one.Cells) < len(l.Columns); {
			one.Cells = append(one.Cells, nil)
		}
	}
	return l, nil
}

// nameColumn returns the name of the argument that a value belongs to.
func nameColumn(pointer string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

// presentOwn presents the arguments that not all calls have, or returns nil if they are too large. Only its own definition hides
// secrets: the tool may have been defined differently since. What a value is may depend on one that all calls have, such as a currency.
func presentOwn(s *subject, own, whole []byte) *Card {
	limits := hostile.Folded()
	limits.Secrets = s.secrets
	fields, err := hostile.ReadFields(own, limits)
	if err != nil {
		return nil
	}
	values, all := typed.RecognizeDocument(own), typed.RecognizeDocument(whole)
	for pointer := range values {
		if v, ok := all[pointer]; ok && pointer != "" {
			values[pointer] = v
		}
	}
	return makeCard(s.place, &fields, s.evidence, values, s.secrets.Find(own), s.secrets.NamedByAgent(own))
}

// isPlain reports whether a call can be approved beside others: all of it was shown, and nothing needs a second look.
func (s *subject) isPlain(shown *Arguments) bool {
	return !s.risk.Twice && !shown.Alarming && !shown.Folded && !shown.Withheld && s.current
}

// presentAlike presents one of several calls with the decisions that the reader may make.
func presentAlike(access identity.Access, now time.Time, s *subject, w *call.Waiting) Alike {
	one := Alike{
		ID: w.Call.ID.String(), URL: present.CallURL(w.Call.ID), Digest: w.Approval.Digest.String(),
		Countdown: present.Countdown(w.Approval.Deadline, now), Viewers: s.viewers,
	}
	if !w.Call.Partial {
		shown := presentArguments(s, format{view: FormatFields}, false)
		one.Warning, one.Alarming = describeFindings(shown.Findings), shown.Alarming
		if shown.Withheld {
			one.Warning = text.Join(" ", one.Warning, s.describeWithheld())
		}
		one.MayApprove = s.isPlain(&shown)
	}
	if s.editWaits() {
		one.MayApprove, one.Warning = false, text.Join(" ", one.Warning, text.ReviewEditedByReviewer())
	}
	if s.hasPolicies() {
		one.MayApprove, one.Warning = false, text.Join(" ", one.Warning, text.VotesOwnPage())
	}
	if _, ok := s.mayDecide(access); !ok {
		one.MayApprove, one.MayNot = false, true
	}
	return one
}

// DecideLike decides several calls, each by its own digest. It does not approve destructive calls, calls with a red warning, or calls that
// were not shown completely.
func (h *BatchHandler) DecideLike(w http.ResponseWriter, r *http.Request) {
	note, complaint := readReason(r, reasonField)
	if !complaint.IsZero() {
		h.answerWithLike(w, r, http.StatusUnprocessableEntity, []view.Notice{{Level: view.Danger, Title: text.ReviewNothingDecided(), Text: complaint}})
		return
	}
	access, _ := login.Access(r.Context())
	var approved, rejected int
	var problems []text.Message
	sent := r.PostForm["call"]
	if len(sent) > likeWindow { // no page of ours has so many
		problems = append(problems, text.ReviewTooMany(likeWindow))
		sent = sent[:likeWindow]
	}
	for _, callID := range sent {
		id, err := uuid.Parse(callID)
		verdict := r.PostFormValue("verdict." + callID)
		if err != nil || verdict != verdictApprove && verdict != verdictReject {
			continue
		}
		d := call.Decision{CallID: id, Approve: verdict == verdictApprove, Digest: r.PostFormValue("digest." + callID), By: access.Person.ID}
		if !d.Approve {
			d.Note = addPreset(r, note)
		}
		if why := h.decideOne(r, access, d); !why.IsZero() {
			problems = append(problems, text.ReviewCallProblem(present.ShortID(id), why))
			continue
		}
		if d.Approve {
			approved++
		} else {
			rejected++
		}
	}
	notices, status := summarizeDecisions(approved, rejected, problems)
	h.answerWithLike(w, r, status, notices)
}

// decideOne decides one of several calls, or says why it cannot.
func (h *BatchHandler) decideOne(r *http.Request, access identity.Access, d call.Decision) (why text.Message) {
	s, err := h.reader.readSubject(r.Context(), access, d.CallID)
	if err != nil {
		return text.ReviewProblemUnread()
	}
	if s.hasPolicies() && (d.Approve || policy.CountRejections(s.approval.Policies) > 1) { // it would be a vote only
		return text.ReviewProblemOwnPage()
	}
	if d.Approve {
		if s.evidence, err = h.calls.ReadEvidence(r.Context(), &s.call); err != nil {
			return text.ReviewProblemUnread()
		}
		arguments := presentArguments(s, format{view: FormatFields}, false)
		if kind := presentActions(s, access, arguments, shown{}).Kind; s.editWaits() || kind != ActionDecide && kind != ActionNone {
			return text.ReviewProblemOwnPage()
		}
	}
	_, err = h.calls.Decide(r.Context(), d)
	var conflict *approval.ConflictError
	var limit *identity.LimitError
	switch {
	case err == nil:
		return text.Message{}
	case errors.Is(err, approval.ErrDigestMismatch):
		return text.ReviewProblemChanged()
	case errors.Is(err, approval.ErrSelfApproval):
		return text.ReviewProblemOwnCall()
	case errors.As(err, &limit):
		return text.ReviewOutsideLimit(limit.Limit.String())
	case errors.Is(err, approval.ErrInvitedApproval):
		return text.ReviewProblemInvited()
	case errors.As(err, &conflict):
		return text.ReviewProblemDecided(string(conflict.Approval.Status))
	}
	h.Log.Error("dashboard", "path", r.URL.Path, "call", d.CallID, "error", err)
	return text.ReviewProblemInternal()
}

func summarizeDecisions(approved, rejected int, problems []text.Message) ([]view.Notice, int) {
	var notices []view.Notice
	switch {
	case approved+rejected > 0:
		notices = append(notices, view.Notice{Level: view.Good, Title: text.ReviewSummary(approved, rejected)})
	case len(problems) == 0:
		notices = append(notices, view.Notice{Level: view.Info, Title: text.ReviewNothingDecided(), Text: text.ReviewChooseDecisions()})
	}
	if len(problems) == 0 {
		return notices, http.StatusOK
	}
	return append(notices, view.Notice{Level: view.Warn, Title: text.ReviewNotDecided(), Text: text.Join(" ", problems...)}), http.StatusConflict
}
