package notify

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// webhookRow is what is needed to send to a webhook.
type webhookRow struct {
	id     uuid.UUID
	sealed []byte
}

func (s *Service) sendWebhook(ctx context.Context, t *turn) outcome {
	if len(t.news) == 0 {
		return outcome{state: nothing}
	}
	return s.postWebhook(ctx, t.webhook, s.chat(t.news))
}

// postWebhook sends a message to a webhook.
func (s *Service) postWebhook(ctx context.Context, row *webhookRow, message chatMessage) outcome {
	address, err := s.Box.Open(row.sealed, secret.For(webhookPurpose, row.id))
	if err != nil {
		s.Logger.Error("the URL of a webhook cannot be decrypted", "webhook", row.id, "error", err)
		return outcome{state: refused, err: errors.New("its URL cannot be decrypted with this server's key"), wait: rest}
	}
	body, err := receiver.Encode(message)
	if err != nil {
		return outcome{state: refused, err: fmt.Errorf("encode message: %w", err), wait: rest}
	}
	return s.outcomeOf(row.id, receiver.Post(ctx, s.webhooks, string(address), nil, body, s.Now()))
}

// TestWebhook sends a message that says it is a test, now and once, and returns the webhook as that left it: its Error says
// what went wrong. ErrNotFound.
func (s *Service) TestWebhook(ctx context.Context, name string) (Webhook, error) {
	w, err := s.webhook(ctx, s.Pool, name)
	if err != nil {
		return Webhook{}, fmt.Errorf("test webhook %q: %w", plain.Line(name, maxName), err)
	}
	row := &webhookRow{id: w.ID}
	if err := s.Pool.QueryRow(ctx, `SELECT sealed FROM webhooks WHERE id = $1`, w.ID).Scan(&row.sealed); err != nil {
		return Webhook{}, fmt.Errorf("test webhook %s: %w", w.Name, err)
	}
	out := s.postWebhook(ctx, row, s.testMessage(w))
	var text *string
	column := "sent_at"
	if out.err != nil {
		message := out.err.Error()
		text, column = &message, "failed_at"
	}
	_, err = s.Pool.Exec(context.WithoutCancel(ctx), `UPDATE webhooks SET `+column+` = holdpoint_now(), error = $2 WHERE id = $1`, w.ID, text)
	if err != nil {
		return Webhook{}, fmt.Errorf("test webhook %s: %w", w.Name, err)
	}
	return s.webhook(ctx, s.Pool, name)
}
