package notify

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// subscriptionPurpose binds an encrypted subscription to its row.
const subscriptionPurpose = "push subscription"

// Browser is a browser with a push subscription.
type Browser struct {
	ID        uuid.UUID
	Client    string // its User-Agent
	Mark      string // by which the browser finds its own row; see [MarkOf]
	Host      string // of its push service
	CreatedAt time.Time
	SentAt    *time.Time
	Error     string // of the last attempt; empty: it succeeded, or there was none
}

// Subscription is a push subscription as the browser sends it (interface PushSubscription).
type Subscription struct {
	Endpoint string `json:"endpoint"` // the URL for messages; it is a credential
	P256DH   string `json:"p256dh"`   // the browser's public key, base64url
	Auth     string `json:"auth"`     // a secret that the browser shares with this server
	// Client is the browser's User-Agent.
	Client string `json:"-"`
	// Session is the session in which the person subscribes. The subscription ends with it.
	Session uuid.UUID `json:"-"`
}

const (
	maxBrowsers = 10  // of one person
	maxClient   = 200 // bytes
)

// Subscribe stores a push subscription of a person's browser. A browser belongs to the last person who subscribed in it.
// Error: *[fault.InvalidError].
func (s *Service) Subscribe(ctx context.Context, person uuid.UUID, n Subscription) error {
	if err := n.validateFields(); err != nil {
		return fmt.Errorf("subscribe to push messages: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("subscribe to push messages: %w", err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("subscribe to push messages: %w", err)
	}
	sealed, err := s.Box.Seal(text, secret.For(subscriptionPurpose, id))
	if err != nil {
		return fmt.Errorf("subscribe to push messages: %w", err)
	}
	hash, client := hashOf(n.Endpoint), plain.Line(n.Client, maxClient)
	err = s.changeTargets(ctx, func(tx pgx.Tx) error {
		// The lock makes the bound exact.
		if _, err := tx.Exec(ctx, `SELECT FROM people WHERE id = $1 FOR NO KEY UPDATE`, person); err != nil {
			return err
		}
		if err := deleteBrowsers(ctx, tx, audit.Person(person), `endpoint_hash = $1`, hash[:]); err != nil {
			return err
		}
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM push_subscriptions WHERE person_id = $1`, person).Scan(&count); err != nil {
			return err
		}
		if count >= maxBrowsers {
			return fault.Invalid("endpoint", fmt.Sprintf("%d of your browsers have subscribed already; remove one first", count))
		}
		_, err := tx.Exec(ctx, `INSERT INTO push_subscriptions (id, person_id, endpoint_hash, sealed, client, session_id)
			VALUES ($1, $2, $3, $4, $5, $6)`, id, person, hash[:], sealed, client, n.Session)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(person), Action: audit.PushSubscriptionCreated, Subject: person,
			Data: map[string]any{"subscription": id, "client": client},
		})
	})
	if err != nil {
		return fmt.Errorf("subscribe to push messages: %w", err)
	}
	return nil
}

func (n Subscription) validateFields() error {
	if n.Session == uuid.Nil {
		return errors.New("a subscription belongs to a session")
	}
	u, err := url.Parse(n.Endpoint)
	if err != nil || len(n.Endpoint) > receiver.MaxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fault.Invalid("endpoint", fmt.Sprintf("must be an https URL of at most %d bytes", receiver.MaxURL))
	}
	key, err := base64.RawURLEncoding.DecodeString(n.P256DH)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(key)
	}
	if err != nil {
		return fault.Invalid("p256dh", "must be a point of P-256, uncompressed, in base64url")
	}
	if auth, err := base64.RawURLEncoding.DecodeString(n.Auth); err != nil || len(auth) != 16 {
		return fault.Invalid("auth", "must be 16 bytes in base64url")
	}
	return nil
}

func hashOf(endpoint string) [sha256.Size]byte { return sha256.Sum256([]byte(endpoint)) }

// MarkOf returns the mark of an endpoint: part of its hash, which identifies the endpoint without revealing it.
func MarkOf(endpoint string) string {
	hash := hashOf(endpoint)
	return hex.EncodeToString(hash[:8])
}

// Unsubscribe deletes a subscription of a person. Error: [ErrNotFound].
func (s *Service) Unsubscribe(ctx context.Context, person, id uuid.UUID) error {
	return s.deleteSubscription(ctx, person, `person_id = $1 AND id = $2`, person, id)
}

// UnsubscribeEndpoint deletes the subscription of a person's browser by its endpoint. Error: [ErrNotFound].
func (s *Service) UnsubscribeEndpoint(ctx context.Context, person uuid.UUID, endpoint string) error {
	hash := hashOf(endpoint)
	return s.deleteSubscription(ctx, person, `person_id = $1 AND endpoint_hash = $2`, person, hash[:])
}

func (s *Service) deleteSubscription(ctx context.Context, person uuid.UUID, where string, args ...any) error {
	err := s.changeTargets(ctx, func(tx pgx.Tx) error {
		var found bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM push_subscriptions WHERE `+where+`)`, args...).Scan(&found); err != nil {
			return err
		}
		if !found {
			return ErrNotFound
		}
		return deleteBrowsers(ctx, tx, audit.Person(person), where, args...)
	})
	if err != nil {
		return fmt.Errorf("unsubscribe from push messages: %w", err)
	}
	return nil
}

// SessionsEnded deletes the subscriptions of sessions, in the transaction that ends them: a browser is not notified after its
// person has signed out.
func (*Service) SessionsEnded(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
	if err := deleteBrowsers(ctx, tx, audit.System(), `session_id = ANY($1)`, sessions); err != nil {
		return fmt.Errorf("end push subscriptions of sessions: %w", err)
	}
	return nil
}

// deleteBrowsers deletes subscriptions and their notices.
func deleteBrowsers(ctx context.Context, tx pgx.Tx, by audit.Actor, where string, args ...any) error {
	rows, err := tx.Query(ctx, `DELETE FROM push_subscriptions WHERE `+where+` RETURNING id, person_id`, args...)
	if err != nil {
		return err
	}
	var events []audit.Event
	var ids []uuid.UUID
	var id, person uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id, &person}, func() error {
		ids = append(ids, id)
		events = append(events, audit.Event{
			Actor: by, Action: audit.PushSubscriptionDeleted, Subject: person, Data: map[string]any{"subscription": id},
		})
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM notices WHERE target_id = ANY($1)`, ids); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}

// Browsers returns the subscriptions of a person, the newest first.
func (s *Service) Browsers(ctx context.Context, person uuid.UUID) ([]Browser, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, sealed, client, created_at, sent_at, coalesce(error, ''), encode(substr(endpoint_hash, 1, 8), 'hex')
		FROM push_subscriptions WHERE person_id = $1 ORDER BY id DESC`, person)
	if err != nil {
		return nil, fmt.Errorf("read push subscriptions: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Browser, error) {
		var b Browser
		var sealed []byte
		err := row.Scan(&b.ID, &sealed, &b.Client, &b.CreatedAt, &b.SentAt, &b.Error, &b.Mark)
		if err != nil {
			return b, err
		}
		b.Host = "unknown"
		if n, err := s.openSubscription(b.ID, sealed); err != nil {
			b.Error = "it cannot be decrypted with this server's key"
		} else if u, err := url.Parse(n.Endpoint); err == nil {
			b.Host = u.Host
		}
		return b, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read push subscriptions: %w", err)
	}
	return found, nil
}

func (s *Service) openSubscription(id uuid.UUID, sealed []byte) (Subscription, error) {
	var n Subscription
	text, err := s.Box.Open(sealed, secret.For(subscriptionPurpose, id))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, err
}
