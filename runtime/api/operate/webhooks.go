package operate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type webhookHandlers struct {
	*rest.Directory

	notify *notify.Service
}

// Webhook notifies a chat of waiting calls. Its URL is a credential and not included.
type Webhook struct {
	ID        uuid.UUID  `json:"id" format:"uuid"`
	Name      string     `json:"name"`
	Team      *string    `json:"team" doc:"It is notified of this team's calls only; null: of all."`
	Host      string     `json:"host" doc:"The host of its URL."`
	State     string     `json:"state" enum:"new,working,failing" doc:"The result of the last delivery attempt; new: no attempt yet."`
	Error     *string    `json:"error" doc:"The error of the last attempt; null: it succeeded."`
	SentAt    *time.Time `json:"sent_at" doc:"The last successful delivery."`
	FailedAt  *time.Time `json:"failed_at" doc:"The last failed attempt."`
	CreatedBy *string    `json:"created_by" doc:"The operator who created it; null: the system."`
	CreatedAt time.Time  `json:"created_at"`
}

func (h *webhookHandlers) webhookViews(ctx context.Context, webhooks ...notify.Webhook) (func(notify.Webhook) Webhook, error) {
	ids := make([]uuid.UUID, len(webhooks))
	for i, w := range webhooks {
		ids[i] = w.CreatedBy
	}
	names, err := h.NamePeople(ctx, ids...)
	if err != nil {
		return nil, err
	}
	return func(w notify.Webhook) Webhook {
		return Webhook{
			ID: w.ID, Name: w.Name, Team: rest.OrNull(w.Team), Host: w.Host, State: w.State(), Error: rest.OrNull(w.Error),
			SentAt: rest.UTCOrNull(w.SentAt), FailedAt: rest.UTCOrNull(w.FailedAt),
			CreatedBy: rest.OrNull(names.NameOf(w.CreatedBy)), CreatedAt: w.CreatedAt.UTC(),
		}
	}, nil
}

// listWebhooks has no pages: there are few webhooks.
func (h *webhookHandlers) listWebhooks(ctx context.Context, _ *rest.None) (*rest.ListOutput[Webhook], error) {
	found, err := h.notify.Webhooks(ctx)
	if err != nil {
		return nil, err
	}
	view, err := h.webhookViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, "", view), nil
}

type createWebhookInput struct {
	Body struct {
		Name string `json:"name" doc:"1 to 64 of a-z, 0-9, '.', '_' and '-'."`
		URL  string `json:"url" doc:"The incoming webhook of Slack or a compatible chat. It is stored encrypted and not shown again."`
		Team string `json:"team,omitempty" doc:"Notify it of this team's calls only. Omitted: of all."`
	} `nameHint:"WebhookRequest"`
}

func (h *webhookHandlers) createWebhook(ctx context.Context, input *createWebhookInput) (*rest.Output[Webhook], error) {
	made, err := h.notify.CreateWebhook(ctx, rest.CallerOf(ctx).Actor(), notify.NewWebhook(input.Body))
	if err != nil {
		return nil, err
	}
	return h.oneWebhook(ctx, made)
}

func (h *webhookHandlers) oneWebhook(ctx context.Context, w notify.Webhook) (*rest.Output[Webhook], error) {
	view, err := h.webhookViews(ctx, w)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(w)), nil
}

func (h *webhookHandlers) deleteWebhook(ctx context.Context, input *rest.ByName) (*rest.None, error) {
	return nil, rest.WithName(h.notify.DeleteWebhook(ctx, rest.CallerOf(ctx).Actor(), input.Name), "webhook", input.Name)
}

// testWebhook returns when the chat has responded: the state is the result.
func (h *webhookHandlers) testWebhook(ctx context.Context, input *rest.ByName) (*rest.Output[Webhook], error) {
	tested, err := h.notify.TestWebhook(ctx, input.Name)
	if err != nil {
		return nil, rest.WithName(err, "webhook", input.Name)
	}
	return h.oneWebhook(ctx, tested)
}
