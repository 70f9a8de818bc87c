package agents

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

func callbackURL(a *agent.Agent, name string) string {
	return present.AgentURL(a.ID) + "/callbacks/" + url.PathEscape(name)
}

func presentState(c *callback.Callback) view.Badge {
	switch c.State() {
	case "disabled":
		if c.DisabledReason == callback.ByReceiver {
			return view.Badge{Level: view.Danger, Icon: "rejected", Word: text.CallbackGone(), Note: text.CallbackGoneNote()}
		}
		return view.Badge{Level: view.Quiet, Icon: "rejected", Word: text.CallbackDisabled()}
	case "failing":
		return view.Badge{Level: view.Danger, Icon: "failed", Word: text.CallbackFailing()}
	case "working":
		return view.Badge{Level: view.Good, Icon: "good", Word: text.CallbackWorking()}
	}
	return view.Badge{Level: view.Quiet, Icon: "bell", Word: text.CallbackUntried()}
}

// NewCallback shows the form of a new callback.
func (h *CallbackHandler) NewCallback(w http.ResponseWriter, r *http.Request) {
	a, err := h.agentPages.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.askForCallback(w, r, a, http.StatusOK, view.WebhookForm{})
}

func (h *CallbackHandler) askForCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, status int, form view.WebhookForm) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page := h.Page(r, view.SectionAgents, text.CallbackNewOf(view.Printable(a.Name)), pulse)
	h.Render(w, r, status, NewCallbackPage(page, NewCallbackForm{Agent: a.Name, AgentURL: present.AgentURL(a.ID), Form: form}))
}

// CreateCallback creates a callback and shows its secret once.
func (h *CallbackHandler) CreateCallback(w http.ResponseWriter, r *http.Request) {
	a, err := h.agentPages.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	asked := callback.NewCallback{Name: r.PostFormValue("name"), URL: r.PostFormValue("url")}
	made, secret, err := h.callbacks.Create(r.Context(), shell.Actor(r), a, asked)
	var wrong *fault.InvalidError
	switch {
	case errors.As(err, &wrong):
		h.askForCallback(w, r, a, http.StatusUnprocessableEntity, view.WebhookForm{Name: asked.Name, Field: wrong.Fields[0].Name, Error: text.Literal(wrong.Fields[0].Expected)})
	case err != nil:
		h.Fail(w, r, err)
	default:
		h.showSecret(w, r, a, &made, CallbackSecret{Secret: secret})
	}
}

func (h *CallbackHandler) showSecret(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback, s CallbackSecret) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	s.Agent, s.AgentURL, s.Name, s.URL = a.Name, present.AgentURL(a.ID), c.Name, callbackURL(a, c.Name)
	h.Render(w, r, http.StatusOK, CallbackSecretPage(h.Page(r, view.SectionAgents, text.CallbackSecretOf(c.Name), pulse), s))
}

// OfCallback finds the agent and the callback that the request's path names.
func (h *CallbackHandler) OfCallback(do func(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := h.agentPages.readAgent(r)
		var c callback.Callback
		if err == nil {
			c, err = h.callbacks.Callback(r.Context(), a.ID, r.PathValue("callback"))
		}
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		do(w, r, a, &c)
	}
}

// redirectToCallback leads to a callback's page, which tells the result by the query.
func (h *CallbackHandler) redirectToCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback, query string, err error) {
	if errors.Is(err, callback.ErrDisabled) {
		query, err = "?done=refused", nil
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, callbackURL(a, c.Name)+query)
}

// TestCallback sends a test message to a callback.
func (h *CallbackHandler) TestCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	d, err := h.callbacks.Test(r.Context(), shell.Actor(r), a, c.Name)
	h.redirectToCallback(w, r, a, c, "?tested="+d.ID.String(), err)
}

// EnableCallback enables a callback.
func (h *CallbackHandler) EnableCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	h.redirectToCallback(w, r, a, c, "?done=enabled", h.callbacks.Enable(r.Context(), shell.Actor(r), a, c.Name))
}

// DisableCallback disables a callback.
func (h *CallbackHandler) DisableCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	h.redirectToCallback(w, r, a, c, "?done=disabled", h.callbacks.Disable(r.Context(), shell.Actor(r), a, c.Name))
}

// ResendDelivery sends a message again.
func (h *CallbackHandler) ResendDelivery(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	id, err := uuid.Parse(r.PathValue("delivery"))
	if err != nil {
		h.Fail(w, r, callback.ErrNotFound)
		return
	}
	_, err = h.callbacks.Resend(r.Context(), shell.Actor(r), a, c.Name, id)
	h.redirectToCallback(w, r, a, c, "?done=resent", err)
}

// DeleteCallback deletes a callback.
func (h *CallbackHandler) DeleteCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	if err := h.callbacks.Delete(r.Context(), shell.Actor(r), a, c.Name); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, present.AgentURL(a.ID)+"?done=callback-deleted")
}

// RotateCallback creates a new secret and shows it once.
func (h *CallbackHandler) RotateCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	grace := callback.DefaultGrace
	if seconds, err := strconv.ParseInt(r.PostFormValue("grace"), 10, 32); err == nil {
		grace = time.Duration(seconds) * time.Second
	}
	rotated, secret, err := h.callbacks.Rotate(r.Context(), shell.Actor(r), a, c.Name, grace)
	if _, ok := errors.AsType[*fault.InvalidError](err); ok {
		h.redirectToCallback(w, r, a, c, "?done=too-many", nil)
		return
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	earlier := text.CallbackSecretReplaced()
	if grace > 0 {
		earlier = text.CallbackSecretBoth(present.DurationWords(grace))
	}
	h.showSecret(w, r, a, &rotated, CallbackSecret{Secret: secret, Rotated: earlier})
}

// ShowCallback shows a callback with the log of its messages.
func (h *CallbackHandler) ShowCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil || before < 0 {
		before = 0
	}
	found, next, err := h.callbacks.Deliveries(r.Context(), c.ID, before, 0)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	names, err := h.Names(r.Context(), c.CreatedBy)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v := Callback{
		Agent: a.Name, AgentURL: present.AgentURL(a.ID), URL: callbackURL(a, c.Name), Name: c.Name, State: presentState(c), Disabled: c.DisabledAt != nil,
		Error: c.Error, Facts: callbackFacts(c, names[c.CreatedBy]), Newest: before == 0, Notice: callbackNotice(r.URL.Query(), found),
	}
	if c.Error != "" {
		v.At = c.FailedAt
	}
	if next > 0 {
		v.Next = v.URL + "?before=" + strconv.FormatInt(next, 10)
	}
	for i := range found {
		v.Rows = append(v.Rows, presentDelivery(v, &found[i]))
	}
	h.Render(w, r, http.StatusOK, CallbackPage(h.Page(r, view.SectionAgents, text.CallbackPageOf(c.Name), pulse), v))
}

func callbackFacts(c *callback.Callback, by string) []view.Fact {
	creator := text.Literal(by)
	if by == "" {
		creator = text.CallbackSystem()
	}
	list := []view.Fact{
		{Name: text.CallbackHost(), Text: text.Literal(c.Host), Code: true},
		present.LastSent(c.SentAt),
		{Name: text.CallbackUnsent(), Text: text.Literal(strconv.Itoa(c.Waiting))},
		{Name: text.CallbackCreated(), Time: &c.CreatedAt},
		{Name: text.CallbackCreatedBy(), Text: creator},
	}
	if c.EarlierUntil != nil {
		list = append(list, view.Fact{Name: text.CallbackEarlierSecret(), Time: c.EarlierUntil})
	}
	if c.DisabledAt != nil {
		list = append(list, view.Fact{Name: text.CallbackDisabled(), Time: c.DisabledAt})
	}
	return list
}

func presentDelivery(c Callback, d *callback.Delivery) DeliveryRow {
	row := DeliveryRow{ID: d.ID.String(), Type: string(d.Type), Status: d.Status, At: d.At, Error: d.Error, Count: d.Attempts}
	if d.CallID != uuid.Nil {
		row.Call = present.CallURL(d.CallID)
	}
	switch d.State {
	case "delivered":
		row.State = view.Badge{Level: view.Good, Icon: "good", Word: text.CallbackDelivered()}
	case "failed":
		row.State = view.Badge{Level: view.Danger, Icon: "failed", Word: text.CallbackGivenUp()}
	default:
		row.State = view.Badge{Level: view.Quiet, Icon: "bell", Word: text.CallbackWaiting()}
	}
	for _, t := range d.Log {
		result := text.Literal(t.Error)
		if t.Error == "" {
			result = text.CallbackAnswered(strconv.Itoa(t.HTTPStatus))
		}
		if t.HTTPStatus != 0 {
			result = text.CallbackAfter(result, int(t.Duration.Milliseconds()))
		}
		row.Log = append(row.Log, AttemptRow{Number: t.Number, At: t.At, Error: t.Error, Result: result})
	}
	if !c.Disabled {
		row.Resend = c.URL + "/deliveries/" + row.ID + "/resend"
	}
	return row
}

// callbackNotice tells the result of the last action.
func callbackNotice(query url.Values, found []callback.Delivery) *view.Notice {
	for i := range found {
		d := &found[i]
		switch {
		case d.ID.String() != query.Get("tested"):
		case d.State == "delivered":
			return &view.Notice{Level: view.Good, Title: text.CallbackTestDelivered(), Text: text.CallbackTestDeliveredNext()}
		default:
			return &view.Notice{Level: view.Danger, Title: text.CallbackTestFailed(), Text: text.CallbackTestFailedNext()}
		}
	}
	switch query.Get("done") {
	case "enabled":
		return &view.Notice{Level: view.Good, Title: text.CallbackEnabledDone(), Text: text.CallbackEnabledNext()}
	case "disabled":
		return &view.Notice{Level: view.Good, Title: text.CallbackDisabledDone(), Text: text.CallbackDisabledNext()}
	case "resent":
		return &view.Notice{Level: view.Good, Title: text.CallbackResentDone(), Text: text.CallbackResentNext()}
	case "refused":
		return &view.Notice{Level: view.Warn, Title: text.CallbackRefusedDone(), Text: text.CallbackRefusedNext()}
	case "too-many":
		return &view.Notice{Level: view.Warn, Title: text.CallbackTooManyDone(), Text: text.CallbackTooManyNext()}
	}
	return nil
}
