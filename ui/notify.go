package ui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// notifyRoutes are about how people hear of calls while they look elsewhere.
func (u *UI) notifyRoutes() []Route {
	return []Route{
		{"POST /settings/push", reviewers(), u.subscribe},
		{"POST /settings/push/end", both(), u.unsubscribe},
		{"POST /settings/push/{id}/remove", both(), u.removeSubscription},
		{"GET /settings/push/{form...}", both(), toSettings},

		{"GET /settings/webhooks", operators(), u.showWebhooks},
		{"POST /settings/webhooks", operators(), u.createWebhook},
		{"POST /settings/webhooks/{name}/test", operators(), u.testWebhook},
		{"POST /settings/webhooks/{name}/delete", operators(), u.deleteWebhook},
		{"GET /settings/webhooks/{form...}", operators(), toWebhooks},
	}
}

// notificationsURL is where the settings are about notifications.
const notificationsURL = "/settings#notifications"

// toSettings is for those who sign in at a form's address.
func toSettings(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, notificationsURL, http.StatusSeeOther)
}

func (u *UI) notifications(ctx context.Context, access identity.Access) (view.Notifications, error) {
	n := view.Notifications{Reviews: access.Has(identity.Reviewer), Operates: access.Has(identity.Operator)}
	if n.Reviews {
		key, err := u.cfg.Notify.PushKey(ctx)
		if err != nil { // all else on the page works
			u.log.Error("push messages cannot be sent", "error", err)
		}
		n.PushKey = key
	}
	browsers, err := u.cfg.Notify.Browsers(ctx, access.Person.ID)
	if err != nil {
		return n, err
	}
	for _, b := range browsers {
		n.Browsers = append(n.Browsers, view.PushBrowser{
			Client: browserOf(b.Client), Mark: b.Mark, Error: b.Error, Remove: "/settings/push/" + b.ID.String() + "/remove",
			Facts: []view.Fact{{Name: "By", Text: b.Host, Code: true}, {Name: "Since", Time: &b.CreatedAt}, lastSent(b.SentAt)},
		})
	}
	return n, nil
}

func lastSent(at *time.Time) view.Fact {
	if at == nil {
		return view.Fact{Name: "Last message", Text: "none yet"}
	}
	return view.Fact{Name: "Last message", Time: at}
}

// subscribe is what the settings' script, or the service worker, says of the browser's subscription.
func (u *UI) subscribe(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	err := u.cfg.Notify.Subscribe(r.Context(), access.Person.ID, notify.Subscription{
		Endpoint: r.PostFormValue("endpoint"), P256DH: r.PostFormValue("p256dh"), Auth: r.PostFormValue("auth"),
		Client: r.UserAgent(), Session: access.Session,
	})
	var wrong *notify.InvalidError
	switch {
	case errors.As(err, &wrong):
		http.Error(w, "The push service of this browser cannot be used: "+wrong.Error()+".", http.StatusUnprocessableEntity)
	case err != nil:
		u.fail(w, r, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// unsubscribe ends the subscription of the browser that asks. One that there is not is ended.
func (u *UI) unsubscribe(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	err := u.cfg.Notify.UnsubscribeEndpoint(r.Context(), access.Person.ID, r.PostFormValue("endpoint"))
	if err != nil && !errors.Is(err, notify.ErrNotFound) {
		u.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (u *UI) removeSubscription(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	id, err := uuid.Parse(r.PathValue("id"))
	if err == nil {
		err = u.cfg.Notify.Unsubscribe(r.Context(), access.Person.ID, id)
		if err != nil && !errors.Is(err, notify.ErrNotFound) { // it is gone, as was asked
			u.fail(w, r, err)
			return
		}
	}
	toSettings(w, r)
}
