package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/ui/view"
)

func (u *UI) callbackRoutes() []Route {
	const one = "/agents/{id}/callbacks/{callback}"
	return []Route{
		{"GET /agents/{id}/callbacks", operators(), u.newCallback},
		{"POST /agents/{id}/callbacks", operators(), u.createCallback},
		{"GET " + one, operators(), u.ofCallback(u.showCallback)},
		{"POST " + one + "/test", operators(), u.ofCallback(u.testCallback)},
		{"POST " + one + "/rotate", operators(), u.ofCallback(u.rotateCallback)},
		{"POST " + one + "/enable", operators(), u.ofCallback(u.enableCallback)},
		{"POST " + one + "/disable", operators(), u.ofCallback(u.disableCallback)},
		{"POST " + one + "/delete", operators(), u.ofCallback(u.deleteCallback)},
		{"POST " + one + "/deliveries/{delivery}/resend", operators(), u.ofCallback(u.resendDelivery)},
	}
}

func callbackURL(a *agent.Agent, name string) string {
	return agentURL(a.ID) + "/callbacks/" + url.PathEscape(name)
}

// fillCallbacks tells operators which other systems are told of the agent's calls.
func (u *UI) fillCallbacks(ctx context.Context, a *agent.Agent, v *view.Agent) error {
	if !v.MayEdit {
		return nil
	}
	found, err := u.cfg.Callbacks.Callbacks(ctx, a.ID)
	for i := range found {
		c := &found[i]
		v.Callbacks = append(v.Callbacks, view.CallbackRow{
			Name: c.Name, URL: callbackURL(a, c.Name), Host: c.Host, Sent: c.SentAt, State: callbackState(c),
		})
	}
	return err
}

func callbackState(c *callback.Callback) view.Badge {
	switch c.State() {
	case "disabled":
		if c.DisabledReason == callback.ByReceiver {
			return view.Badge{Level: view.Danger, Icon: "rejected", Word: "gone", Note: "it answered that it is gone, and was disabled"}
		}
		return view.Badge{Level: view.Quiet, Icon: "rejected", Word: "disabled"}
	case "failing":
		return view.Badge{Level: view.Danger, Icon: "failed", Word: "failing"}
	case "working":
		return view.Badge{Level: view.Good, Icon: "good", Word: "works"}
	}
	return view.Badge{Level: view.Quiet, Icon: "bell", Word: "not tried yet"}
}

// newCallback shows the form that makes one.
func (u *UI) newCallback(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.askForCallback(w, r, a, http.StatusOK, view.WebhookForm{})
}

func (u *UI) askForCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, status int, form view.WebhookForm) {
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	page := u.page(r, view.SectionAgents, "New callback of "+printable(a.Name), pulse)
	u.render(w, r, status, view.NewCallbackPage(page, view.NewCallbackForm{Agent: a.Name, AgentURL: agentURL(a.ID), Form: form}))
}

// createCallback makes one and shows its secret, this once.
func (u *UI) createCallback(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	asked := callback.NewCallback{Name: r.PostFormValue("name"), URL: r.PostFormValue("url")}
	made, secret, err := u.cfg.Callbacks.Create(r.Context(), actor(r), a, asked)
	var wrong *callback.InvalidError
	switch {
	case errors.As(err, &wrong):
		u.askForCallback(w, r, a, http.StatusUnprocessableEntity, view.WebhookForm{Name: asked.Name, Field: wrong.Field, Error: wrong.Expected})
	case err != nil:
		u.fail(w, r, err)
	default:
		u.tellSecret(w, r, a, &made, view.CallbackSecret{Secret: secret})
	}
}

func (u *UI) tellSecret(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback, s view.CallbackSecret) {
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	s.Agent, s.AgentURL, s.Name, s.URL = a.Name, agentURL(a.ID), c.Name, callbackURL(a, c.Name)
	u.render(w, r, http.StatusOK, view.CallbackSecretPage(u.page(r, view.SectionAgents, "Secret of "+c.Name, pulse), s))
}

// ofCallback finds the agent and the callback that the request's path names.
func (u *UI) ofCallback(do func(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := u.agentOf(r)
		var c callback.Callback
		if err == nil {
			c, err = u.cfg.Callbacks.Callback(r.Context(), a.ID, r.PathValue("callback"))
		}
		if err != nil {
			u.fail(w, r, err)
			return
		}
		do(w, r, a, &c)
	}
}

// doneWith goes on to a callback's page, which says what was done.
func (u *UI) doneWith(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback, query string, err error) {
	if errors.Is(err, callback.ErrDisabled) {
		query, err = "?done=refused", nil
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, callbackURL(a, c.Name)+query, http.StatusSeeOther)
}

func (u *UI) testCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	d, err := u.cfg.Callbacks.Test(r.Context(), actor(r), a, c.Name)
	u.doneWith(w, r, a, c, "?tested="+d.ID.String(), err)
}

func (u *UI) enableCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	u.doneWith(w, r, a, c, "?done=enabled", u.cfg.Callbacks.Enable(r.Context(), actor(r), a, c.Name))
}

func (u *UI) disableCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	u.doneWith(w, r, a, c, "?done=disabled", u.cfg.Callbacks.Disable(r.Context(), actor(r), a, c.Name))
}

func (u *UI) resendDelivery(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	id, err := uuid.Parse(r.PathValue("delivery"))
	if err != nil {
		u.fail(w, r, callback.ErrNotFound)
		return
	}
	_, err = u.cfg.Callbacks.Resend(r.Context(), actor(r), a, c.Name, id)
	u.doneWith(w, r, a, c, "?done=resent", err)
}

func (u *UI) deleteCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	if err := u.cfg.Callbacks.Delete(r.Context(), actor(r), a, c.Name); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, agentURL(a.ID)+"?done=callback-deleted", http.StatusSeeOther)
}

// rotateCallback makes a new secret and shows it, this once.
func (u *UI) rotateCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	grace := callback.DefaultGrace
	if seconds, err := strconv.ParseInt(r.PostFormValue("grace"), 10, 32); err == nil {
		grace = time.Duration(seconds) * time.Second
	}
	rotated, secret, err := u.cfg.Callbacks.Rotate(r.Context(), actor(r), a, c.Name, grace)
	if _, ok := errors.AsType[*callback.InvalidError](err); ok {
		u.doneWith(w, r, a, c, "?done=too-many", nil)
		return
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	words := "The earlier one signs no longer."
	if grace > 0 {
		words = "The earlier one signs too for " + durationWords(grace) + ": so long both verify."
	}
	u.tellSecret(w, r, a, &rotated, view.CallbackSecret{Secret: secret, Rotated: words})
}

// showCallback shows one, and the log of what it was told.
func (u *UI) showCallback(w http.ResponseWriter, r *http.Request, a *agent.Agent, c *callback.Callback) {
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil || before < 0 {
		before = 0
	}
	found, next, err := u.cfg.Callbacks.Deliveries(r.Context(), c.ID, before, 0)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	names, err := u.names(r.Context(), c.CreatedBy)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v := view.Callback{
		Agent: a.Name, AgentURL: agentURL(a.ID), URL: callbackURL(a, c.Name), Name: c.Name, State: callbackState(c), Disabled: c.DisabledAt != nil,
		Error: c.Error, Facts: callbackFacts(c, names[c.CreatedBy]), Newest: before == 0, Notice: callbackNotice(r.URL.Query(), found),
	}
	if c.Error != "" {
		v.At = c.FailedAt
	}
	if next > 0 {
		v.Next = v.URL + "?before=" + strconv.FormatInt(next, 10)
	}
	for i := range found {
		v.Rows = append(v.Rows, deliveryRow(v, &found[i]))
	}
	u.render(w, r, http.StatusOK, view.CallbackPage(u.page(r, view.SectionAgents, "Callback "+c.Name, pulse), v))
}

func callbackFacts(c *callback.Callback, by string) []view.Fact {
	if by == "" {
		by = "the system"
	}
	list := []view.Fact{
		{Name: "Writes to", Text: c.Host, Code: true},
		lastSent(c.SentAt),
		{Name: "Still to be sent", Text: strconv.Itoa(c.Waiting)},
		{Name: "Made", Time: &c.CreatedAt},
		{Name: "Made by", Text: by},
	}
	if c.EarlierUntil != nil {
		list = append(list, view.Fact{Name: "An earlier secret signs until", Time: c.EarlierUntil})
	}
	if c.DisabledAt != nil {
		list = append(list, view.Fact{Name: "Disabled", Time: c.DisabledAt})
	}
	return list
}

func deliveryRow(c view.Callback, d *callback.Delivery) view.DeliveryRow {
	row := view.DeliveryRow{ID: d.ID.String(), Type: d.Type, Status: d.Status, At: d.At, Error: d.Error, Count: d.Attempts}
	if d.CallID != uuid.Nil {
		row.Call = callURL(d.CallID)
	}
	switch d.State {
	case "delivered":
		row.State = view.Badge{Level: view.Good, Icon: "good", Word: "taken"}
	case "failed":
		row.State = view.Badge{Level: view.Danger, Icon: "failed", Word: "given up"}
	default:
		row.State = view.Badge{Level: view.Quiet, Icon: "bell", Word: "waiting"}
	}
	for _, t := range d.Log {
		text := t.Error
		if text == "" {
			text = "answered HTTP " + strconv.Itoa(t.HTTPStatus)
		}
		if t.HTTPStatus != 0 {
			text += ", after " + strconv.FormatInt(t.Duration.Milliseconds(), 10) + " ms"
		}
		row.Log = append(row.Log, view.AttemptRow{Number: t.Number, At: t.At, Text: text})
	}
	if !c.Disabled {
		row.Resend = c.URL + "/deliveries/" + row.ID + "/resend"
	}
	return row
}

// callbackNotice says what was just done.
func callbackNotice(query url.Values, found []callback.Delivery) *view.Notice {
	for i := range found {
		d := &found[i]
		switch {
		case d.ID.String() != query.Get("tested"):
		case d.State == "delivered":
			return &view.Notice{Level: view.Good, Title: "The message was taken.", Text: "It was signed as all are: see whether the other system verified it."}
		default:
			return &view.Notice{Level: view.Danger, Title: "The message was not taken.", Text: "What went wrong stands below."}
		}
	}
	switch query.Get("done") {
	case "enabled":
		return &view.Notice{Level: view.Good, Title: "Enabled.", Text: "What happens from now on is told."}
	case "disabled":
		return &view.Notice{Level: view.Good, Title: "Disabled.", Text: "Nothing is sent until it is enabled."}
	case "resent":
		return &view.Notice{Level: view.Good, Title: "It is being sent again.", Text: "It has the webhook-id that it had."}
	case "refused":
		return &view.Notice{Level: view.Warn, Title: "Nothing was sent.", Text: "The callback is disabled: enable it first."}
	case "too-many":
		return &view.Notice{Level: view.Warn, Title: "No new secret was made.", Text: "Too many earlier ones still sign: wait until one no longer does, or end them all with “no longer”."}
	}
	return nil
}
