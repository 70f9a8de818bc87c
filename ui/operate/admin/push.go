package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// notificationsURL is the part of the settings about notifications.
const notificationsURL = "/settings#notifications"

// ToSettings leads from the address of a form to the settings.
func ToSettings(w http.ResponseWriter, r *http.Request) {
	shell.Redirect(w, r, notificationsURL)
}

func (h *PushHandler) readNotifications(ctx context.Context, access identity.Access) (Notifications, error) {
	n := Notifications{Reviews: access.Has(identity.Reviewer), Operates: access.Has(identity.Operator)}
	if n.Reviews {
		key, err := h.notify.PushKey(ctx)
		if err != nil { // the rest of the page works
			h.Log.Error("push messages cannot be sent", "error", err)
		}
		n.PushKey = key
	}
	browsers, err := h.notify.Browsers(ctx, access.Person.ID)
	if err != nil {
		return n, err
	}
	for _, b := range browsers {
		n.Browsers = append(n.Browsers, PushBrowser{
			Client: nameBrowser(b.Client), Mark: b.Mark, Error: b.Error, Remove: "/settings/push/" + b.ID.String() + "/remove",
			Facts: []view.Fact{
				{Name: text.SettingsPushService(), Text: text.Literal(b.Host), Code: true}, {Name: text.SettingsPushSince(), Time: &b.CreatedAt}, present.LastSent(b.SentAt),
			},
		})
	}
	return n, nil
}

// Subscribe keeps the browser's subscription, which the settings' script or the service worker sends.
func (h *PushHandler) Subscribe(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	err := h.notify.Subscribe(r.Context(), access.Person.ID, notify.Subscription{
		Endpoint: r.PostFormValue("endpoint"), P256DH: r.PostFormValue("p256dh"), Auth: r.PostFormValue("auth"),
		Client: r.UserAgent(), Session: access.Session,
	})
	var wrong *fault.InvalidError
	switch {
	case errors.As(err, &wrong):
		http.Error(w, text.SettingsPushRefused(wrong.Error()).In(r.Context()), http.StatusUnprocessableEntity)
	case err != nil:
		h.Fail(w, r, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// Unsubscribe ends the subscription of the browser that asks, if it has one.
func (h *PushHandler) Unsubscribe(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	err := h.notify.UnsubscribeEndpoint(r.Context(), access.Person.ID, r.PostFormValue("endpoint"))
	if err != nil && !errors.Is(err, notify.ErrNotFound) {
		h.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// RemoveSubscription ends one of the person's subscriptions.
func (h *PushHandler) RemoveSubscription(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	id, err := uuid.Parse(r.PathValue("id"))
	if err == nil {
		err = h.notify.Unsubscribe(r.Context(), access.Person.ID, id)
		if err != nil && !errors.Is(err, notify.ErrNotFound) {
			h.Fail(w, r, err)
			return
		}
	}
	shell.RedirectDone(w, r, "/settings", shell.BrowserRemoved)
}
