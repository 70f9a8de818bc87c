package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/notify"
)

// Webhook is where a chat is told of calls that wait. Its URL is a credential, and not among this.
type Webhook struct {
	ID        uuid.UUID  `json:"id" format:"uuid"`
	Name      string     `json:"name"`
	Team      *string    `json:"team" doc:"It hears of this team's calls only; null: of all."`
	Host      string     `json:"host" doc:"Of its URL."`
	State     string     `json:"state" enum:"new,working,failing" doc:"How the last attempt to send something to it went; new: there was none."`
	Error     *string    `json:"error" doc:"What was wrong with the last attempt; null: nothing."`
	SentAt    *time.Time `json:"sent_at" doc:"When it took a message last."`
	FailedAt  *time.Time `json:"failed_at" doc:"When it did not, last."`
	CreatedBy *string    `json:"created_by" doc:"The operator who made it; null: the system."`
	CreatedAt time.Time  `json:"created_at"`
}

func (a *API) webhookViews(ctx context.Context, webhooks ...notify.Webhook) (func(notify.Webhook) Webhook, error) {
	ids := make([]uuid.UUID, len(webhooks))
	for i, w := range webhooks {
		ids[i] = w.CreatedBy
	}
	names, err := a.people(ctx, ids...)
	if err != nil {
		return nil, err
	}
	return func(w notify.Webhook) Webhook {
		return Webhook{
			ID: w.ID, Name: w.Name, Team: orNull(w.Team), Host: w.Host, State: w.State(), Error: orNull(w.Error),
			SentAt: utcOrNull(w.SentAt), FailedAt: utcOrNull(w.FailedAt),
			CreatedBy: orNull(names.of(w.CreatedBy)), CreatedAt: w.CreatedAt.UTC(),
		}
	}, nil
}

// listWebhooks has no pages: there are few.
func (a *API) listWebhooks(ctx context.Context, _ *none) (*listOutput[Webhook], error) {
	found, err := a.notify.Webhooks(ctx)
	if err != nil {
		return nil, err
	}
	view, err := a.webhookViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listOf(found, "", view), nil
}

type createWebhookInput struct {
	Body struct {
		Name string `json:"name" doc:"1 to 64 of a-z, 0-9, '.', '_' and '-'."`
		URL  string `json:"url" doc:"The incoming webhook of Slack, or of a chat that is compatible with it. It is kept encrypted and not shown again."`
		Team string `json:"team,omitempty" doc:"Tell it of this team's calls only. Left out: of all."`
	} `nameHint:"WebhookRequest"`
}

func (a *API) createWebhook(ctx context.Context, input *createWebhookInput) (*bodyOutput[Webhook], error) {
	made, err := a.notify.CreateWebhook(ctx, callerOf(ctx).actor(), notify.NewWebhook(input.Body))
	if err != nil {
		return nil, err
	}
	return a.oneWebhook(ctx, made)
}

func (a *API) oneWebhook(ctx context.Context, w notify.Webhook) (*bodyOutput[Webhook], error) {
	view, err := a.webhookViews(ctx, w)
	if err != nil {
		return nil, err
	}
	return output(view(w)), nil
}

func (a *API) deleteWebhook(ctx context.Context, input *ByName) (*none, error) {
	return nil, named(a.notify.DeleteWebhook(ctx, callerOf(ctx).actor(), input.Name), "webhook", input.Name)
}

// testWebhook answers when the chat has: its state says how.
func (a *API) testWebhook(ctx context.Context, input *ByName) (*bodyOutput[Webhook], error) {
	tested, err := a.notify.TestWebhook(ctx, input.Name)
	if err != nil {
		return nil, named(err, "webhook", input.Name)
	}
	return a.oneWebhook(ctx, tested)
}

// notifyProblem tells what is wrong with what was asked of notifications. Nil: the error is no such.
func notifyProblem(err error) *Problem {
	var wrong *notify.InvalidError
	switch {
	case errors.As(err, &wrong):
		return invalid("body."+wrong.Field, "%s", wrong.Expected)
	case errors.Is(err, notify.ErrNotFound):
		return problem(http.StatusNotFound, CodeNotFound, "there is no such webhook here")
	}
	return nil
}
