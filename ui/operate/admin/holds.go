package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

const holdsURL = "/settings/holds"

// Holds are the parts of the page of legal holds.
type Holds struct {
	Notice *view.Notice
	List   []Hold
	Form   HoldForm
}

// Hold is a legal hold.
type Hold struct {
	ID    string
	Agent text.Message // zero: every agent
	State view.Badge
	Facts []view.Fact
	Lift  string // URL of the form; empty: it was lifted
}

// HoldForm has the values of a form that was refused.
type HoldForm struct {
	Agent, From, To, Reason string
	Field                   string       // the invalid field
	Error                   text.Message // its problem
}

// Wrong returns the problem of a field.
func (f HoldForm) Wrong(field string) text.Message {
	if f.Field == field {
		return f.Error
	}
	return text.Message{}
}

// ToHolds leads from the address of a form to the page of legal holds.
func ToHolds(w http.ResponseWriter, r *http.Request) { shell.Redirect(w, r, holdsURL) }

// ShowHolds lists the legal holds.
func (h *HoldHandler) ShowHolds(w http.ResponseWriter, r *http.Request) {
	h.answerWithHolds(w, r, http.StatusOK, Holds{})
}

func (h *HoldHandler) answerWithHolds(w http.ResponseWriter, r *http.Request, status int, page Holds) {
	holds, err := h.holds.List(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	var people, agents []uuid.UUID
	for i := range holds {
		people, agents = append(people, holds[i].CreatedBy, holds[i].LiftedBy), append(agents, holds[i].AgentID)
	}
	names, err := h.Names(r.Context(), people...)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	known, err := h.calls.Agents.Names(r.Context(), agents)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range holds {
		page.List = append(page.List, presentHold(&holds[i], names, known))
	}
	h.Render(w, r, status, HoldsPage(h.Page(r, view.SectionSettings, text.HoldTitle(), pulse), page))
}

func presentHold(one *legalhold.Hold, people, agents map[uuid.UUID]string) Hold {
	by := func(person uuid.UUID) text.Message {
		if name := people[person]; name != "" {
			return text.Literal(name)
		}
		return text.HoldSystem()
	}
	shown := Hold{ID: one.ID.String(), State: view.Badge{Level: view.Good, Icon: "good", Word: text.HoldInForce()}, Lift: holdsURL + "/" + one.ID.String() + "/lift"}
	if one.AgentID != uuid.Nil {
		if shown.Agent = text.Literal(agents[one.AgentID]); agents[one.AgentID] == "" {
			shown.Agent = text.Literal(one.AgentID.String())
		}
	}
	if one.From != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.HoldFrom(), Time: one.From})
	}
	if one.To != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.HoldTo(), Time: one.To})
	}
	shown.Facts = append(shown.Facts, view.Fact{Name: text.HoldReason(), Text: text.Literal(one.Reason)},
		view.Fact{Name: text.HoldSet(), Time: &one.CreatedAt}, view.Fact{Name: text.HoldSetBy(), Text: by(one.CreatedBy)})
	if one.LiftedAt != nil {
		shown.Lift, shown.State = "", view.Badge{Level: view.Quiet, Icon: "cancelled", Word: text.HoldLifted()}
		shown.Facts = append(shown.Facts, view.Fact{Name: text.HoldLifted(), Time: one.LiftedAt}, view.Fact{Name: text.HoldLiftedBy(), Text: by(one.LiftedBy)},
			view.Fact{Name: text.HoldLiftReason(), Text: text.Literal(one.LiftReason)})
	}
	return shown
}

// SetHold puts a hold in force.
func (h *HoldHandler) SetHold(w http.ResponseWriter, r *http.Request) {
	form := HoldForm{Agent: r.PostFormValue("agent"), From: r.PostFormValue("from"), To: r.PostFormValue("to"), Reason: r.PostFormValue("reason")}
	asked := legalhold.Hold{Reason: form.Reason}
	refuse := func(field string, problem text.Message) {
		form.Field, form.Error = field, problem
		h.answerWithHolds(w, r, http.StatusUnprocessableEntity, Holds{Form: form})
	}
	if form.Agent != "" {
		found, err := h.calls.Agents.AgentsNamed(r.Context(), form.Agent)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		if len(found) != 1 {
			refuse("agent", text.HoldUnknownAgent())
			return
		}
		asked.AgentID = found[0]
	}
	for _, bound := range []struct {
		name, value string
		end         bool
		at          **time.Time
	}{{"from", form.From, false, &asked.From}, {"to", form.To, true, &asked.To}} {
		if bound.value == "" {
			continue
		}
		at, err := query.ParseTime(bound.value, bound.end, view.Zone(r.Context()))
		if err != nil {
			refuse(bound.name, text.Literal(err.Error()))
			return
		}
		*bound.at = &at
	}
	_, err := h.holds.Set(r.Context(), shell.Actor(r), asked)
	var wrong *fault.InvalidError
	switch {
	case errors.As(err, &wrong):
		refuse(wrong.Fields[0].Name, text.Literal(wrong.Fields[0].Expected))
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.RedirectDone(w, r, holdsURL, shell.HoldSet)
	}
}

// LiftHold lifts a hold.
func (h *HoldHandler) LiftHold(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err == nil {
		_, err = h.holds.Lift(r.Context(), shell.Actor(r), id, r.PostFormValue("reason"))
	} else {
		err = legalhold.ErrNotFound
	}
	var wrong *fault.InvalidError
	switch {
	case errors.Is(err, legalhold.ErrNotFound), errors.Is(err, legalhold.ErrLifted), errors.As(err, &wrong):
		status := http.StatusNotFound
		if wrong != nil {
			status = http.StatusUnprocessableEntity
		}
		h.answerWithHolds(w, r, status, Holds{Notice: &view.Notice{Level: view.Warn, Title: text.HoldNotFound(), Text: text.HoldNotFoundHere()}})
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.RedirectDone(w, r, holdsURL, shell.HoldLifted)
	}
}
