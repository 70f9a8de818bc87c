package ui

import (
	"context"
	"errors"
	"hash/crc32"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

func (u *UI) showCall(w http.ResponseWriter, r *http.Request) {
	u.answerWithCall(w, r, http.StatusOK, shown{})
}

// shown is how a call is to be shown, besides what the request says.
type shown struct {
	notice  *view.Notice
	confirm bool   // the second step
	reveal  bool   // secrets are shown
	draft   string // what was typed
	err     string // what is missing in it
}

// answerWithCall answers with the page of the call that the request is about, or
// with the part of it that changes.
func (u *UI) answerWithCall(w http.ResponseWriter, r *http.Request, status int, s shown) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	subject, err := u.subject(r.Context(), id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) && r.Method == http.MethodGet && r.URL.Query().Get("known") == subject.state() {
		w.WriteHeader(http.StatusNoContent) // it is on the screen
		return
	}
	access, _ := login.Access(r.Context())
	presented := presentCall(subject, access, formatOf(r), s)
	if presented.Wait, err = u.wait(r.Context(), access, subject); err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) {
		u.render(w, r, status, view.CallArticle(presented))
		return
	}
	page := u.page(r, view.SectionQueue, subject.call.Skill+": "+printable(subject.call.Tool), subject.pulse)
	if presented.Live && subject.call.Status != call.Parked {
		page.RefreshAfter = 2 // seconds, without JavaScript; never while somebody may be writing
	}
	u.render(w, r, status, view.CallPage(page, presented))
}

// subject is a call with everything that is said about it.
type subject struct {
	call       call.Call
	approval   *approval.Approval // nil: it never needed one
	definition *tool.Definition   // nil: not stored
	accepted   *tool.Definition   // what was accepted before; nil: the same, or none
	current    bool               // the server still offers the tool as it was called
	changed    time.Time          // when the server began to offer the tool as it does now
	risk       risk
	names      map[uuid.UUID]string // of people
	pulse      approval.Pulse
	selfOK     bool // people may decide their own calls
}

func (u *UI) subject(ctx context.Context, id uuid.UUID) (*subject, error) {
	s := &subject{selfOK: u.cfg.Calls.AllowSelfApproval}
	var err error
	if s.call, err = u.cfg.Calls.Get(ctx, call.Viewer{}, id); err != nil {
		return nil, err
	}
	people := []uuid.UUID{s.call.PrincipalID}
	if s.call.Resolution != nil {
		people = append(people, s.call.Resolution.By)
	}
	waiting, err := u.cfg.Calls.Approval(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound):
	case err != nil:
		return nil, err
	default: // read together, so that they do not contradict each other
		s.call, s.approval = waiting.Call, &waiting.Approval
		people = append(people, waiting.Approval.DecidedBy)
	}
	if s.names, err = u.names(ctx, people...); err != nil {
		return nil, err
	}
	if s.pulse, err = u.cfg.Calls.Pulse(ctx); err != nil {
		return nil, err
	}
	return s, u.describe(ctx, s)
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
	if s.call.Status == call.NeedsConnection {
		state += "." + strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(s.call.Message))), 36)
	}
	return state
}

// describe adds what is known of the call's tool.
func (u *UI) describe(ctx context.Context, s *subject) error {
	status, err := u.cfg.Discovery.Status(ctx, s.call.SkillID, s.call.Tool)
	if err != nil {
		return err
	}
	s.current, s.changed = status.Known && status.Current == s.call.Pin, status.Changed
	definitions, err := u.cfg.Discovery.Definitions(ctx, []tool.Pin{s.call.Pin, status.Accepted})
	if err != nil {
		return err
	}
	if d, ok := definitions[s.call.Pin]; ok {
		s.definition = &d
	}
	if d, ok := definitions[status.Accepted]; ok && status.Accepted != s.call.Pin {
		s.accepted = &d
	}
	s.risk, err = u.risk(ctx, &s.call, definitions[s.call.Pin])
	return err
}

// format is how arguments are to be shown.
type format struct {
	view view.Format
	full bool
}

func formatOf(r *http.Request) format {
	f := format{view: view.FormatFields, full: r.FormValue("full") != ""}
	if v := view.Format(r.FormValue("view")); v == view.FormatJSON || v == view.FormatRaw {
		f.view = v
	}
	return f
}

// mayDecide reports whether the person may decide about the call, and if not, why.
func (s *subject) mayDecide(who identity.Access) (why string, ok bool) {
	switch {
	case !who.Has(identity.Reviewer):
		return "You may look at this call. Deciding takes the role reviewer.", false
	case s.call.PrincipalID == who.Person.ID && !s.selfOK:
		return "This call was made on your behalf. Somebody else has to decide about it.", false
	}
	return "", true
}
