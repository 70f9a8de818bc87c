package notify

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/SherClockHolmes/webpush-go"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// browserRow is a browser to send to.
type browserRow struct {
	id      uuid.UUID
	session uuid.UUID // in which the person subscribed
	sealed  []byte
}

// pushMessage is the message for the service worker (ui/static/sw.js).
type pushMessage struct {
	Show    []pushCall  `json:"show"`
	More    int         `json:"more"`    // pending calls besides those in Show
	Ended   []uuid.UUID `json:"ended"`   // calls that are no longer pending
	Waiting int         `json:"waiting"` // pending calls of all messages to this browser
}

// pushCall is a call in a message. The service worker writes the title, in the language of its reader.
type pushCall struct {
	ID    uuid.UUID `json:"id"`
	Kind  Kind      `json:"kind"`
	Call  string    `json:"call"`  // its skill, tool and agent
	Gate  bool      `json:"gate"`  // Holdpoint does not execute it
	Team  string    `json:"team"`  // those that are asked
	Title string    `json:"title"` // in English, for service workers of earlier versions, which a browser may keep for a day
	Until int64     `json:"until"` // milliseconds since 1970; 0: there is no deadline
}

const (
	maxShown = 3              // calls that a message lists
	maxTitle = 250            // bytes of a call's names; push services take 4096 in all
	pushTTL  = 24 * time.Hour // of messages that only retract, and of calls without a deadline
)

func (s *Service) sendPush(ctx context.Context, t *turn) outcome {
	if len(t.news) == 0 && len(t.ends) == 0 {
		return outcome{state: nothing}
	}
	message, err := s.pushMessage(ctx, t)
	if err != nil {
		return outcome{state: later, err: err}
	}
	access, err := s.Identity.SessionAccess(ctx, t.browser.session)
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return outcome{state: nothing} // the subscription of an expired session may still exist
	case err != nil:
		return outcome{state: later, err: err}
	case !access.Has(identity.Reviewer):
		return outcome{state: nothing}
	}
	out := s.sendToBrowser(ctx, t.browser, message, s.messageTTL(t.news))
	if out.state == refused && out.wait < refusalPause {
		out.wait = refusalPause
	}
	return out
}

func (s *Service) pushMessage(ctx context.Context, t *turn) (pushMessage, error) {
	m := pushMessage{Show: []pushCall{}, Ended: []uuid.UUID{}, More: max(len(t.news)-maxShown, 0)}
	for _, e := range t.news[:min(maxShown, len(t.news))] {
		named := e
		named.GateOnly = false // the service worker says so, in the language of its reader
		call := plain.Line(named.plainLine(), maxTitle)
		team := plain.Line(listTeams(e.listAsked(), func(name string) string { return plain.Line(name, maxName) }), maxName)
		shown := pushCall{ID: e.CallID, Kind: e.Kind, Call: call, Gate: e.GateOnly, Team: team, Title: plain.Line(describeKind(e.Kind, team)+" "+e.plainLine(), maxTitle)}
		if !e.Deadline.IsZero() {
			shown.Until = e.Deadline.UnixMilli()
		}
		m.Show = append(m.Show, shown)
	}
	for _, e := range t.ends {
		m.Ended = append(m.Ended, e.CallID)
	}
	calls, _ := callsAndKinds(t.news)
	err := s.Pool.QueryRow(ctx, `SELECT count(DISTINCT call_id) FROM notices n
		WHERE target_id = $1 AND sent_at IS NOT NULL AND call_id <> ALL($2)
			AND NOT EXISTS (SELECT FROM notices d WHERE d.target_id = n.target_id AND d.call_id = n.call_id AND d.kind = $3)`,
		t.Target, calls, Decided).Scan(&m.Waiting)
	if err != nil {
		return m, fmt.Errorf("count calls that a browser shows: %w", err)
	}
	m.Waiting += len(calls)
	return m, nil
}

// messageTTL is how long a push service keeps a message for an offline browser: until the last deadline.
func (s *Service) messageTTL(news []Event) time.Duration {
	life := time.Duration(0)
	for _, e := range news {
		if life = max(life, e.Deadline.Sub(s.Now())); e.Deadline.IsZero() {
			life = max(life, pushTTL)
		}
	}
	if len(news) == 0 {
		life = pushTTL
	}
	return min(max(life, time.Second), 7*pushTTL)
}

// sendToBrowser encrypts a message (RFC 8291) and sends it to the push service.
func (s *Service) sendToBrowser(ctx context.Context, row *browserRow, message pushMessage, life time.Duration) outcome {
	n, err := s.openSubscription(row.id, row.sealed)
	if err != nil {
		s.Logger.Error("decrypt push subscription", "subscription", row.id, "error", err)
		return outcome{state: refused, err: errors.New("it cannot be decrypted with this server's key"), wait: refusalPause}
	}
	keys, err := s.pushKeys(ctx)
	if err != nil {
		s.Logger.Error("read key for push messages", "error", err)
		return outcome{state: later, err: errors.New("this server's key for push messages cannot be read")}
	}
	text, err := receiver.Encode(message)
	if err != nil {
		return outcome{state: refused, err: fmt.Errorf("encode message: %w", err)}
	}
	response, err := webpush.SendNotificationWithContext(ctx, text,
		&webpush.Subscription{Endpoint: n.Endpoint, Keys: webpush.Keys{Auth: n.Auth, P256dh: n.P256DH}},
		&webpush.Options{
			HTTPClient: s.pushes, Subscriber: s.senderContact(), TTL: int(life.Seconds()), Urgency: webpush.UrgencyHigh,
			VAPIDPublicKey: keys.public, VAPIDPrivateKey: keys.private,
		})
	if errors.Is(err, webpush.ErrMaxPadExceeded) {
		return outcome{state: refused, err: err}
	}
	if err != nil {
		answer := receiver.Unsent(err)
		if errors.Is(answer.Err, receiver.ErrNotPublic) {
			answer.Err = errors.New("is not at a public address") // --trusted-hosts does not apply to hosts that browsers name
		}
		return s.outcomeOf(row.id, answer)
	}
	defer response.Body.Close()
	out := s.outcomeOf(row.id, receiver.Judge(response, n.Endpoint, s.Now()))
	if out.state == refused && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone) {
		out.state = gone
	}
	return out
}

// pushKeyPurpose binds the encrypted key to its row.
const pushKeyPurpose = "push key"

// vapidKeys is the key pair that identifies this server to push services (RFC 8292), in the form of the library.
type vapidKeys struct {
	private, public string
}

// PushKey returns the public key that a browser needs to subscribe. It is made on first use; all processes share it.
func (s *Service) PushKey(ctx context.Context) (string, error) {
	keys, err := s.pushKeys(ctx)
	return keys.public, err
}

func (s *Service) pushKeys(ctx context.Context) (vapidKeys, error) {
	return s.vapid.Get(ctx, struct{}{}, func(ctx context.Context) (keys vapidKeys, err error) {
		err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
			keys, err = s.readPushKeys(ctx, tx)
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_push_keys', 0))`); err != nil {
				return err
			}
			keys, err = s.readPushKeys(ctx, tx)
			if errors.Is(err, pgx.ErrNoRows) {
				keys, err = s.makePushKeys(ctx, tx)
			}
			return err
		})
		if err != nil {
			return vapidKeys{}, fmt.Errorf("read the key for push messages: %w", err)
		}
		return keys, nil
	})
}

func (s *Service) readPushKeys(ctx context.Context, tx pgx.Tx) (vapidKeys, error) {
	var id uuid.UUID
	var sealed []byte
	if err := tx.QueryRow(ctx, `SELECT id, sealed FROM push_keys ORDER BY id LIMIT 1`).Scan(&id, &sealed); err != nil {
		return vapidKeys{}, err
	}
	private, err := s.Box.Open(sealed, secret.For(pushKeyPurpose, id))
	if err != nil {
		return vapidKeys{}, err
	}
	return encodeKeyPair(private)
}

func (s *Service) makePushKeys(ctx context.Context, tx pgx.Tx) (vapidKeys, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return vapidKeys{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return vapidKeys{}, err
	}
	sealed, err := s.Box.Seal(key.Bytes(), secret.For(pushKeyPurpose, id))
	if err != nil {
		return vapidKeys{}, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO push_keys (id, sealed) VALUES ($1, $2)`, id, sealed); err != nil {
		return vapidKeys{}, err
	}
	return encodeKeyPair(key.Bytes())
}

func encodeKeyPair(private []byte) (vapidKeys, error) {
	key, err := ecdh.P256().NewPrivateKey(private)
	if err != nil {
		return vapidKeys{}, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return vapidKeys{private: encode(private), public: encode(key.PublicKey().Bytes())}, nil
}

// senderContact is the contact address of the sender (RFC 8292 section 2.1), in the form of the library.
func (s *Service) senderContact() string {
	if strings.HasPrefix(s.PublicURL, "https://") {
		return s.PublicURL
	}
	return "postmaster@localhost" // push services require an address
}
