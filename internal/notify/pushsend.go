package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/SherClockHolmes/webpush-go"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// browserRow is what is needed to send to a browser.
type browserRow struct {
	id      uuid.UUID
	session uuid.UUID // in which it was subscribed
	sealed  []byte
}

// pushMessage is what the service worker is sent (ui/static/sw.js).
type pushMessage struct {
	Show    []pushCall  `json:"show"`
	More    int         `json:"more"`    // that wait besides those in Show
	Ended   []uuid.UUID `json:"ended"`   // that wait no longer
	Waiting int         `json:"waiting"` // of all that this browser was ever told of
}

type pushCall struct {
	ID    uuid.UUID `json:"id"`
	Title string    `json:"title"`
	Until int64     `json:"until"` // milliseconds since 1970
}

const (
	shown    = 3              // calls that a message shows one by one
	maxTitle = 300            // bytes; push services take 4096 in all
	pushTTL  = 24 * time.Hour // of what takes something back
)

func (s *Service) sendPush(ctx context.Context, t *turn) outcome {
	if len(t.news) == 0 && len(t.ends) == 0 {
		return outcome{state: nothing}
	}
	message, err := s.pushMessage(ctx, t)
	if err != nil {
		return outcome{state: later, err: err}
	}
	reviews, err := s.reviews(ctx, t.browser.session)
	if err != nil {
		return outcome{state: later, err: err}
	}
	if !reviews {
		return outcome{state: nothing}
	}
	out := s.push(ctx, t.browser, message, s.life(t.news))
	if out.state == refused && out.wait < rest {
		out.wait = rest
	}
	return out
}

// reviews reports whether a session goes on, and its person is still a reviewer in it. A session that is over only by
// its time still has its subscriptions.
func (s *Service) reviews(ctx context.Context, session uuid.UUID) (bool, error) {
	access, err := s.Identity.SessionAccess(ctx, session)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return false, nil
	}
	return access.Has(identity.Reviewer), err
}

func (s *Service) pushMessage(ctx context.Context, t *turn) (pushMessage, error) {
	m := pushMessage{Show: []pushCall{}, Ended: []uuid.UUID{}, More: max(len(t.news)-shown, 0)}
	for _, e := range t.news[:min(shown, len(t.news))] {
		title := plain.Line(said(e.Kind, plain.Line(e.Team, maxName))+" "+e.line(), maxTitle)
		m.Show = append(m.Show, pushCall{ID: e.CallID, Title: title, Until: e.Deadline.UnixMilli()})
	}
	for _, e := range t.ends {
		m.Ended = append(m.Ended, e.CallID)
	}
	calls, _ := keys(t.news)
	err := s.Pool.QueryRow(ctx, `SELECT count(DISTINCT call_id) FROM notices n
		WHERE target_id = $1 AND sent_at IS NOT NULL AND call_id <> ALL($2)
			AND NOT EXISTS (SELECT FROM notices d WHERE d.target_id = n.target_id AND d.call_id = n.call_id AND d.kind = $3)`,
		t.Target, calls, Decided).Scan(&m.Waiting)
	if err != nil {
		return m, fmt.Errorf("count what a browser shows: %w", err)
	}
	m.Waiting += len(calls)
	return m, nil
}

// life is how long a push service keeps a message for a browser that is away: until all its calls are over.
func (s *Service) life(news []Event) time.Duration {
	life := time.Duration(0)
	for _, e := range news {
		life = max(life, e.Deadline.Sub(s.Now()))
	}
	if len(news) == 0 {
		life = pushTTL
	}
	return min(max(life, time.Second), 7*pushTTL)
}

// push encrypts a message for a browser (RFC 8291) and gives it to its push service.
func (s *Service) push(ctx context.Context, row *browserRow, message pushMessage, life time.Duration) outcome {
	n, err := s.openSubscription(row.id, row.sealed)
	if err != nil {
		s.Logger.Error("a push subscription cannot be decrypted", "subscription", row.id, "error", err)
		return outcome{state: refused, err: errors.New("it cannot be decrypted with this server's key"), wait: rest}
	}
	keys, err := s.pushKeys(ctx)
	if err != nil {
		s.Logger.Error("push messages cannot be sent", "error", err)
		return outcome{state: later, err: errors.New("this server's key for push messages cannot be read")}
	}
	text, err := receiver.Encode(message)
	if err != nil {
		return outcome{state: refused, err: fmt.Errorf("encode message: %w", err)}
	}
	response, err := webpush.SendNotificationWithContext(ctx, text,
		&webpush.Subscription{Endpoint: n.Endpoint, Keys: webpush.Keys{Auth: n.Auth, P256dh: n.P256DH}},
		&webpush.Options{
			HTTPClient: s.pushes, Subscriber: s.contact(), TTL: int(life.Seconds()), Urgency: webpush.UrgencyHigh,
			VAPIDPublicKey: keys.public, VAPIDPrivateKey: keys.private,
		})
	if errors.Is(err, webpush.ErrMaxPadExceeded) {
		return outcome{state: refused, err: err}
	}
	if err != nil {
		answer := receiver.Unsent(err)
		if errors.Is(answer.Err, receiver.ErrNotPublic) {
			answer.Err = errors.New("is not at a public address") // --trusted-hosts is not for hosts that browsers name
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

// dropBrowser forgets a subscription that its push service does not know any more.
func dropBrowser(ctx context.Context, tx pgx.Tx, row *browserRow) error {
	if err := forgetBrowsers(ctx, tx, audit.System(), `id = $1`, row.id); err != nil {
		return err
	}
	return registry.Notify(ctx, tx)
}
