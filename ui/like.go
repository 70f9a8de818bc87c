package ui

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// The verdicts of the form on which like calls stand side by side.
const (
	verdictApprove = "approve"
	verdictReject  = "reject"
)

func (u *UI) showLike(w http.ResponseWriter, r *http.Request) {
	u.answerWithLike(w, r, http.StatusOK, nil)
}

// answerWithLike shows the calls that wait and differ from one in their arguments only.
func (u *UI) answerWithLike(w http.ResponseWriter, r *http.Request, status int, notices []view.Notice) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	s, err := u.subject(r.Context(), access, id)
	if err == nil && s.approval == nil {
		err = approval.ErrNotFound
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	waiting, err := u.cfg.Calls.Like(r.Context(), s.approval, likeWindow)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	l, err := u.presentLike(r, access, s, waiting)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	l.Notices, l.Draft = notices, clean(r.PostFormValue(reasonField))
	u.render(w, r, status, view.LikePage(u.page(r, view.SectionQueue, "Calls side by side", s.pulse), l))
}

func (u *UI) presentLike(r *http.Request, access identity.Access, s *subject, waiting []call.Waiting) (view.Like, error) {
	l := view.Like{
		URL: callURL(s.call.ID), Sentence: sentence(&s.call, s.names), Risk: s.risk.badge, Alone: s.risk.twice, Presets: presets(),
	}
	documents := make([][]byte, len(waiting))
	for i := range waiting {
		documents[i] = waiting[i].Call.Arguments
	}
	common, own := []byte("{}"), documents
	if !slices.ContainsFunc(waiting, func(w call.Waiting) bool { return w.Call.Pin != s.call.Pin }) {
		common, own = apart(documents) // else what is a secret in one may be none in another
	}
	limits := hostile.Folded()
	limits.Secrets = s.secrets()
	if fields, err := hostile.ReadFields(common, limits); err == nil && len(waiting) > 1 && len(common) > len("{}") {
		l.Common = &fields
	}
	for i := range waiting {
		one, err := u.presentAlike(r, access, s, &waiting[i], own[i])
		if err != nil {
			return l, err
		}
		l.Rows = append(l.Rows, one)
	}
	return l, nil
}

// presentAlike is one of several calls: what of it differs from the others, and which verdicts there are.
func (u *UI) presentAlike(r *http.Request, access identity.Access, first *subject, w *call.Waiting, own []byte) (view.Alike, error) {
	s, err := u.subject(r.Context(), access, w.Call.ID)
	if err != nil {
		return view.Alike{}, err
	}
	one := view.Alike{
		ID: w.Call.ID.String(), URL: callURL(w.Call.ID), Digest: w.Approval.Digest.String(),
		Countdown: countdown(w.Approval.Deadline, first.pulse.Now), Viewers: s.viewers,
	}
	limits := hostile.Folded()
	limits.Secrets = s.secrets() // its own: the tool may have been defined differently since
	fields, err := hostile.ReadFields(own, limits)
	if err == nil {
		one.Own = &fields
	}
	if !w.Call.Partial {
		shown := presentArguments(s, format{view: view.FormatFields}, false)
		one.Warning = findingWords(shown.Findings)
		if shown.Withheld > 0 {
			one.Warning = strings.TrimSpace(one.Warning + " " + s.withheldWords(shown.Withheld))
		}
		one.MayApprove = !s.risk.twice && !shown.Folded && shown.Withheld == 0 && err == nil && s.current
	}
	if s.editWaits() {
		one.MayApprove, one.Warning = false, strings.TrimSpace(one.Warning+" A reviewer edited it, and another has to approve the edit.")
	}
	if _, ok := s.mayDecide(access); !ok {
		one.MayApprove, one.MayNot = false, true
	}
	return one, nil
}

// apart splits objects: into the members that all of them have with the same bytes, and what is left of each.
func apart(documents [][]byte) (common []byte, own [][]byte) {
	own = make([][]byte, len(documents))
	all := make([][]member, len(documents))
	in := make(map[string]int) // how many documents have a member; none has two of one name
	for i, document := range documents {
		members, err := membersOf(document)
		if err != nil || documents[i] == nil {
			copy(own, documents)
			return []byte("{}"), own
		}
		all[i] = members
		for _, m := range members {
			in[m.text()]++
		}
	}
	for i, members := range all {
		var rest, same []member
		for _, m := range members {
			if in[m.text()] == len(documents) {
				same = append(same, m)
			} else {
				rest = append(rest, m)
			}
		}
		own[i] = object(rest)
		if i == 0 {
			common = object(same)
		}
	}
	return common, own
}

// member is a member of an object, as it is written.
type member struct {
	name, value []byte
}

// said is what the name says, however it is written.
func (m member) said() string {
	text, err := jsontext.AppendUnquote(nil, m.name)
	if err != nil { // it was read as a string
		return string(m.name)
	}
	return string(text)
}

func (m member) text() string { return string(m.name) + ":" + string(m.value) }

func membersOf(document []byte) ([]member, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(document))
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	if token.Kind() != '{' {
		return nil, errors.New("read arguments: not an object")
	}
	var list []member
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		m := member{name: bytes.Clone(name)}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		m.value = bytes.Clone(value)
		list = append(list, m)
	}
	return list, nil
}

func object(members []member) []byte {
	text := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, m.text()...)
	}
	return append(text, '}')
}

// decideLike records a verdict for each of several calls, each about its own digest. What is destructive, and what
// was not shown whole, is not approved here.
func (u *UI) decideLike(w http.ResponseWriter, r *http.Request) {
	note, complaint := reason(r, reasonField)
	if complaint != "" {
		u.answerWithLike(w, r, http.StatusUnprocessableEntity, []view.Notice{{Level: view.Danger, Title: "Nothing was decided.", Text: complaint}})
		return
	}
	access, _ := login.Access(r.Context())
	var approved, rejected int
	var problems []string
	sent := r.PostForm["call"]
	if len(sent) > likeWindow { // no page of ours has so many
		problems = append(problems, fmt.Sprintf("At most %d calls are decided at once.", likeWindow))
		sent = sent[:likeWindow]
	}
	for _, text := range sent {
		id, err := uuid.Parse(text)
		verdict := r.PostFormValue("verdict." + text)
		if err != nil || verdict != verdictApprove && verdict != verdictReject {
			continue
		}
		d := call.Decision{CallID: id, Approve: verdict == verdictApprove, Digest: r.PostFormValue("digest." + text), By: access.Person.ID}
		if !d.Approve {
			d.Note = withPreset(r.PostFormValue("preset"), note)
		}
		if why := u.decideOne(r, access, d); why != "" {
			problems = append(problems, "Call "+shortID(id)+": "+why)
			continue
		}
		if d.Approve {
			approved++
		} else {
			rejected++
		}
	}
	notices, status := sumUp(approved, rejected, problems)
	u.answerWithLike(w, r, status, notices)
}

// decideOne decides about one of several calls, and says in words why it could not.
func (u *UI) decideOne(r *http.Request, access identity.Access, d call.Decision) (why string) {
	s, err := u.subject(r.Context(), access, d.CallID)
	if err != nil {
		return "it could not be read."
	}
	if d.Approve {
		arguments := presentArguments(s, format{view: view.FormatFields}, false)
		if kind := actions(s, access, arguments, shown{}).Kind; s.editWaits() || kind != view.ActionDecide && kind != view.ActionNone {
			return "it is approved on its own page only."
		}
	}
	_, err = u.cfg.Calls.Decide(r.Context(), d)
	var conflict *approval.ConflictError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, approval.ErrDigestMismatch):
		return "it changed since it was shown."
	case errors.Is(err, approval.ErrSelfApproval):
		return "it was made on your behalf."
	case errors.Is(err, approval.ErrInvitedApproval):
		return "it is of the person who invited you, and nobody verified who you are."
	case errors.As(err, &conflict):
		return "it was " + string(conflict.Approval.Status) + " before."
	}
	u.log.Error("dashboard", "path", r.URL.Path, "call", d.CallID, "error", err)
	return "that did not work."
}

func sumUp(approved, rejected int, problems []string) ([]view.Notice, int) {
	var notices []view.Notice
	switch {
	case approved+rejected > 0:
		notices = append(notices, view.Notice{Level: view.Good, Title: fmt.Sprintf("%d approved, %d rejected.", approved, rejected)})
	case len(problems) == 0:
		notices = append(notices, view.Notice{Level: view.Info, Title: "Nothing was decided.", Text: "Choose a verdict for the calls that you want to decide about."})
	}
	if len(problems) == 0 {
		return notices, http.StatusOK
	}
	return append(notices, view.Notice{Level: view.Warn, Title: "Not decided:", Text: strings.Join(problems, " ")}), http.StatusConflict
}
