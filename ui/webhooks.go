package ui

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/ui/view"
)

const webhooksURL = "/settings/webhooks"

func toWebhooks(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, webhooksURL, http.StatusSeeOther)
}

// showWebhooks lists the chats that are told of calls, and says what was just done with one of them.
func (u *UI) showWebhooks(w http.ResponseWriter, r *http.Request) {
	u.answerWithWebhooks(w, r, http.StatusOK, view.WebhookForm{}, nil)
}

// noWebhook says that one is not there that was to be tested or deleted: somebody deleted it meanwhile, or it never was.
func (u *UI) noWebhook(w http.ResponseWriter, r *http.Request) {
	u.answerWithWebhooks(w, r, http.StatusNotFound, view.WebhookForm{}, &view.Notice{
		Level: view.Warn, Title: "No such webhook.", Text: "Nothing was done: there is none of that name, or no longer.",
	})
}

func (u *UI) answerWithWebhooks(w http.ResponseWriter, r *http.Request, status int, form view.WebhookForm, told *view.Notice) {
	list, err := u.cfg.Notify.Webhooks(r.Context())
	var pulse approval.Pulse
	if err == nil {
		pulse, err = u.cfg.Calls.Pulse(r.Context())
	}
	page := view.Webhooks{Form: form, Notice: told}
	for i := 0; err == nil && i < len(list); i++ {
		var one view.Webhook
		one, err = u.webhookView(r, list[i])
		page.List = append(page.List, one)
		if list[i].Name == r.URL.Query().Get("tested") {
			page.Notice = tested(list[i])
		}
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if r.URL.Query().Has("deleted") {
		page.Notice = &view.Notice{Level: view.Good, Title: "Deleted.", Text: "The chat is told no more."}
	}
	u.render(w, r, status, view.WebhooksPage(u.page(r, view.SectionSettings, "Webhooks", pulse), page))
}

// tested says how a test went.
func tested(w notify.Webhook) *view.Notice {
	if w.Error != "" {
		return &view.Notice{Level: view.Danger, Title: "The chat did not take the message.", Text: "What went wrong stands with " + w.Name + " below."}
	}
	return &view.Notice{Level: view.Good, Title: "The chat took the message.", Text: "Look for it where " + w.Name + " writes."}
}

func (u *UI) webhookView(r *http.Request, w notify.Webhook) (view.Webhook, error) {
	names, err := u.names(r.Context(), w.CreatedBy)
	if err != nil {
		return view.Webhook{}, err
	}
	by := names[w.CreatedBy]
	if by == "" {
		by = "the system"
	}
	path := webhooksURL + "/" + url.PathEscape(w.Name)
	one := view.Webhook{
		ID: "webhook-" + w.Name, Name: w.Name, Team: w.Team, Error: w.Error, Test: path + "/test", Delete: path + "/delete",
		State: webhookState(w), Facts: []view.Fact{
			{Name: "Writes to", Text: w.Host, Code: true}, lastSent(w.SentAt), {Name: "Made", Time: &w.CreatedAt}, {Name: "Made by", Text: by},
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
		return view.Badge{Level: view.Danger, Icon: "failed", Word: "failing"}
	case "working":
		return view.Badge{Level: view.Good, Icon: "good", Word: "works"}
	}
	return view.Badge{Level: view.Quiet, Icon: "bell", Word: "not tried yet"}
}

func (u *UI) createWebhook(w http.ResponseWriter, r *http.Request) {
	asked := notify.NewWebhook{Name: r.PostFormValue("name"), URL: r.PostFormValue("url"), Team: r.PostFormValue("team")}
	made, err := u.cfg.Notify.CreateWebhook(r.Context(), actor(r), asked)
	var wrong *notify.InvalidError
	switch {
	case errors.As(err, &wrong):
		u.answerWithWebhooks(w, r, http.StatusUnprocessableEntity, view.WebhookForm{
			Name: asked.Name, Team: asked.Team, Field: wrong.Field, Error: wrong.Expected,
		}, nil)
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, webhooksURL+"#webhook-"+made.Name, http.StatusSeeOther)
	}
}

func (u *UI) testWebhook(w http.ResponseWriter, r *http.Request) {
	found, err := u.cfg.Notify.TestWebhook(r.Context(), r.PathValue("name"))
	switch {
	case errors.Is(err, notify.ErrNotFound):
		u.noWebhook(w, r)
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, webhooksURL+"?tested="+url.QueryEscape(found.Name), http.StatusSeeOther)
	}
}

func (u *UI) deleteWebhook(w http.ResponseWriter, r *http.Request) {
	err := u.cfg.Notify.DeleteWebhook(r.Context(), actor(r), r.PathValue("name"))
	switch {
	case errors.Is(err, notify.ErrNotFound):
		u.noWebhook(w, r)
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, webhooksURL+"?deleted", http.StatusSeeOther)
	}
}
