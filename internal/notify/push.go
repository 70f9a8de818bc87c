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
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// subscriptionPurpose binds a sealed subscription to its row.
const subscriptionPurpose = "push subscription"

// Browser is a browser that has subscribed to push messages.
type Browser struct {
	ID        uuid.UUID
	Client    string // as it called itself
	Mark      string // by which the browser itself finds its row: see [MarkOf]
	Host      string // of its push service
	CreatedAt time.Time
	SentAt    *time.Time
	Error     string // of the last attempt; empty: it succeeded, or there was none
}

// Subscription is what a browser says of its subscription (the interface PushSubscription).
type Subscription struct {
	Endpoint string `json:"endpoint"` // where messages are sent; whoever knows it can
	P256DH   string `json:"p256dh"`   // the browser's public key, base64url
	Auth     string `json:"auth"`     // and a secret that it shares with this server
	// Client is the browser, as it calls itself.
	Client string `json:"-"`
	// Session is the one in which the person subscribes. Messages are sent while it goes on; with it the subscription ends.
	Session uuid.UUID `json:"-"`
}

const (
	maxBrowsers = 10  // of one person
	maxClient   = 200 // bytes
)

func (n Subscription) validate() error {
	if n.Session == uuid.Nil {
		return errors.New("a subscription belongs to a session")
	}
	u, err := url.Parse(n.Endpoint)
	if err != nil || len(n.Endpoint) > receiver.MaxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return &InvalidError{"endpoint", fmt.Sprintf("must be an https URL of at most %d bytes", receiver.MaxURL)}
	}
	key, err := base64.RawURLEncoding.DecodeString(n.P256DH)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(key)
	}
	if err != nil {
		return &InvalidError{"p256dh", "must be a point of P-256, uncompressed, in base64url"}
	}
	if auth, err := base64.RawURLEncoding.DecodeString(n.Auth); err != nil || len(auth) != 16 {
		return &InvalidError{"auth", "must be 16 bytes in base64url"}
	}
	return nil
}

func hashOf(endpoint string) [sha256.Size]byte { return sha256.Sum256([]byte(endpoint)) }

// MarkOf is the mark of an endpoint: enough of its hash to know it by, and nothing to find it by.
func MarkOf(endpoint string) string {
	hash := hashOf(endpoint)
	return hex.EncodeToString(hash[:8])
}

// Subscribe has a person's browser be sent push messages. A browser belongs to whoever subscribed it last. Errors:
// *InvalidError.
func (s *Service) Subscribe(ctx context.Context, person uuid.UUID, n Subscription) error {
	if err := n.validate(); err != nil {
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
	err = s.change(ctx, func(tx pgx.Tx) error {
		// One at a time, so that the bound holds.
		if _, err := tx.Exec(ctx, `SELECT FROM people WHERE id = $1 FOR NO KEY UPDATE`, person); err != nil {
			return err
		}
		if err := forgetBrowsers(ctx, tx, audit.Person(person), `endpoint_hash = $1`, hash[:]); err != nil {
			return err
		}
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM push_subscriptions WHERE person_id = $1`, person).Scan(&count); err != nil {
			return err
		}
		if count >= maxBrowsers {
			return &InvalidError{"endpoint", fmt.Sprintf("%d browsers of yours have subscribed already; remove one first", count)}
		}
		_, err := tx.Exec(ctx, `INSERT INTO push_subscriptions (id, person_id, endpoint_hash, sealed, client, session_id)
			VALUES ($1, $2, $3, $4, $5, $6)`, id, person, hash[:], sealed, client, n.Session)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(person), Action: "push_subscription.created", Subject: person,
			Data: map[string]any{"subscription": id, "client": client},
		})
	})
	if err != nil {
		return fmt.Errorf("subscribe to push messages: %w", err)
	}
	return nil
}

// Unsubscribe ends one subscription of a person's. ErrNotFound.
func (s *Service) Unsubscribe(ctx context.Context, person, id uuid.UUID) error {
	return s.unsubscribe(ctx, person, `person_id = $1 AND id = $2`, person, id)
}

// UnsubscribeEndpoint ends the subscription of a person's browser that knows its endpoint. ErrNotFound.
func (s *Service) UnsubscribeEndpoint(ctx context.Context, person uuid.UUID, endpoint string) error {
	hash := hashOf(endpoint)
	return s.unsubscribe(ctx, person, `person_id = $1 AND endpoint_hash = $2`, person, hash[:])
}

func (s *Service) unsubscribe(ctx context.Context, person uuid.UUID, where string, args ...any) error {
	err := s.change(ctx, func(tx pgx.Tx) error {
		var found bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM push_subscriptions WHERE `+where+`)`, args...).Scan(&found); err != nil {
			return err
		}
		if !found {
			return ErrNotFound
		}
		return forgetBrowsers(ctx, tx, audit.Person(person), where, args...)
	})
	if err != nil {
		return fmt.Errorf("unsubscribe from push messages: %w", err)
	}
	return nil
}

// SessionsEnded ends, in the transaction in which sessions are ended or removed, what their people subscribed to in them: a
// browser that somebody signed out of is told nothing more.
func (*Service) SessionsEnded(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
	if err := forgetBrowsers(ctx, tx, audit.System(), `session_id = ANY($1)`, sessions); err != nil {
		return fmt.Errorf("end push subscriptions of sessions: %w", err)
	}
	return nil
}

// forgetBrowsers removes subscriptions, and what they were to be told.
func forgetBrowsers(ctx context.Context, tx pgx.Tx, by audit.Actor, where string, args ...any) error {
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
			Actor: by, Action: "push_subscription.deleted", Subject: person, Data: map[string]any{"subscription": id},
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

// Browsers returns the subscriptions of a person, newest first.
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
