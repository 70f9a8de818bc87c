package admin

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

const webhooksURL = "/settings/webhooks"

// ToWebhooks leads from the address of a form to the page of webhooks.
func ToWebhooks(w http.ResponseWriter, r *http.Request) {
	shell.Redirect(w, r, webhooksURL)
}

// ShowWebhooks lists the chats that are notified of calls, with the result of a test or deletion.
func (h *WebhookHandler) ShowWebhooks(w http.ResponseWriter, r *http.Request) {
	h.answerWithWebhooks(w, r, http.StatusOK, view.WebhookForm{}, nil)
}

// answerNotFound shows that the webhook to test or delete does not exist.
func (h *WebhookHandler) answerNotFound(w http.ResponseWriter, r *http.Request) {
	h.answerWithWebhooks(w, r, http.StatusNotFound, view.WebhookForm{}, &view.Notice{
		Level: view.Warn, Title: text.WebhookNotFound(), Text: text.WebhookNotFoundHere(),
	})
}

func (h *WebhookHandler) answerWithWebhooks(w http.ResponseWriter, r *http.Request, status int, form view.WebhookForm, notice *view.Notice) {
	list, err := h.notify.Webhooks(r.Context())
	var pulse approval.Pulse
	if err == nil {
		pulse, err = h.calls.ReadPulse(r.Context())
	}
	page, query := Webhooks{Form: form, Notice: notice}, r.URL.Query()
	for i := 0; err == nil && i < len(list); i++ {
		var one Webhook
		one, err = h.presentWebhook(r, list[i])
		page.List = append(page.List, one)
		if query.Get("done") == "tested" && list[i].Name == query.Get("name") {
			page.Notice = presentTest(list[i])
		}
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, status, WebhooksPage(h.Page(r, view.SectionSettings, text.WebhookTitle(), pulse), page))
}

// presentTest tells the result of a test.
func presentTest(w notify.Webhook) *view.Notice {
	if w.Error != "" {
		return &view.Notice{Level: view.Danger, Title: text.WebhookTestFailed(), Text: text.WebhookTestFailedHere(w.Name)}
	}
	return &view.Notice{Level: view.Good, Title: text.WebhookTestWorked(), Text: text.WebhookTestWorkedHere(w.Name)}
}

func (h *WebhookHandler) presentWebhook(r *http.Request, w notify.Webhook) (Webhook, error) {
	names, err := h.Names(r.Context(), w.CreatedBy)
	if err != nil {
		return Webhook{}, err
	}
	creator := text.Literal(names[w.CreatedBy])
	if creator.IsZero() {
		creator = text.WebhookSystem()
	}
	path := webhooksURL + "/" + url.PathEscape(w.Name)
	one := Webhook{
		ID: "webhook-" + w.Name, Name: w.Name, Team: w.Team, Error: w.Error, Test: path + "/test", Delete: path + "/delete",
		State: webhookState(w), Facts: []view.Fact{
			{Name: text.WebhookHost(), Text: text.Literal(w.Host), Code: true},
			present.LastSent(w.SentAt),
			{Name: text.WebhookCreated(), Time: &w.CreatedAt},
			{Name: text.WebhookCreatedBy(), Text: creator},
		},
	}
	if w.Error != "" {
		one.At = w.FailedAt
	}
	return one, nil
}

func webhookState(w notify.Webhook) view.Badge {
	switch w.State() {
	case "failing":
		return view.Badge{Level: view.Danger, Icon: "failed", Word: text.WebhookFailing()}
	case "working":
		return view.Badge{Level: view.Good, Icon: "good", Word: text.WebhookWorking()}
	}
	return view.Badge{Level: view.Quiet, Icon: "bell", Word: text.WebhookUntried()}
}

// CreateWebhook creates a webhook.
func (h *WebhookHandler) CreateWebhook(w http.ResponseWriter, r *http.Request) {
	asked := notify.NewWebhook{Name: r.PostFormValue("name"), URL: r.PostFormValue("url"), Team: r.PostFormValue("team")}
	_, err := h.notify.CreateWebhook(r.Context(), shell.Actor(r), asked)
	var wrong *fault.InvalidError
	switch {
	case errors.As(err, &wrong):
		h.answerWithWebhooks(w, r, http.StatusUnprocessableEntity, view.WebhookForm{
			Name: asked.Name, Team: asked.Team, Field: wrong.Fields[0].Name, Error: text.Literal(wrong.Fields[0].Expected),
		}, nil)
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.RedirectDone(w, r, webhooksURL, shell.WebhookCreated)
	}
}

// TestWebhook sends a test message to a webhook.
func (h *WebhookHandler) TestWebhook(w http.ResponseWriter, r *http.Request) {
	found, err := h.notify.TestWebhook(r.Context(), r.PathValue("name"))
	switch {
	case errors.Is(err, notify.ErrNotFound):
		h.answerNotFound(w, r)
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, webhooksURL+"?done=tested&name="+url.QueryEscape(found.Name))
	}
}

// DeleteWebhook deletes a webhook.
func (h *WebhookHandler) DeleteWebhook(w http.ResponseWriter, r *http.Request) {
	err := h.notify.DeleteWebhook(r.Context(), shell.Actor(r), r.PathValue("name"))
	switch {
	case errors.Is(err, notify.ErrNotFound):
		h.answerNotFound(w, r)
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.RedirectDone(w, r, webhooksURL, shell.WebhookDeleted)
	}
}
