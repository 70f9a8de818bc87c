package resource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// hash is the SHA-256 of a URI, in JSON as hexadecimal.
type hash [sha256.Size]byte

// MarshalText implements [encoding.TextMarshaler].
func (h hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return hex.ErrLength
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// updateKey identifies a resource of a skill. A skill with a connection for each person has one for each person.
type updateKey struct {
	Skill     uuid.UUID `json:"s"`
	Principal uuid.UUID `json:"p,omitzero"`
	URI       hash      `json:"u"`
}

func newUpdateKey(o *catalog.Offer, uri string) updateKey {
	key := updateKey{Skill: o.Skill.ID, URI: sha256.Sum256([]byte(uri))}
	if o.Server.PerUser {
		key.Principal = o.Server.Principal
	}
	return key
}

// source is a resource whose changes a skill's server reports to this process.
type source struct {
	server    tool.Server
	uri       string
	followers map[*follower]struct{}
	ending    *time.Timer // runs while there are no followers
}

// updates has the subscriptions of this process on skill servers, and their followers.
type updates struct {
	s *Service

	background sync.WaitGroup
	ctx        context.Context //nolint:containedctx // ends with the service
	cancel     context.CancelFunc

	mu        sync.Mutex
	closed    bool
	sources   map[updateKey]*source
	followers map[*follower]struct{}
	dirty     map[updateKey]struct{} // changed, and not yet notified
	lists     map[listKey]struct{}   // likewise
	timer     *time.Timer            // until the next notification; nil: none
	told      time.Time              // the last notification
}

func newUpdates(s *Service) *updates {
	u := &updates{s: s, sources: map[updateKey]*source{}, followers: map[*follower]struct{}{}, dirty: map[updateKey]struct{}{}, lists: map[listKey]struct{}{}}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

func (u *updates) closeUpdates() {
	u.mu.Lock()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
	for _, from := range u.sources {
		if from.ending != nil {
			from.ending.Stop()
		}
	}
	u.mu.Unlock()
	u.cancel()
	u.background.Wait()
}

// startTask runs f in the background, unless the service was closed. The caller holds u.mu.
func (u *updates) startTask(f func()) {
	if !u.closed {
		u.background.Go(f)
	}
}

// Updated handles the notification of a skill's server that a resource changed. It is cheap however often it is called: it ignores
// resources without a subscription, and all other processes are notified of the changes together, at most once per [Config.Pause].
func (s *Service) Updated(skillID, principal uuid.UUID, uri string) {
	key := updateKey{Skill: skillID, Principal: principal, URI: sha256.Sum256([]byte(uri))}
	u := s.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.sources[key] == nil {
		return
	}
	u.dirty[key] = struct{}{}
	u.scheduleFlush()
}

// scheduleFlush schedules the next notification of the processes. The caller holds u.mu.
func (u *updates) scheduleFlush() {
	if u.timer == nil {
		u.timer = time.AfterFunc(max(0, u.told.Add(u.s.Pause).Sub(u.s.Now())), u.flushPending)
	}
}

// flushPending notifies the processes.
func (u *updates) flushPending() {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys := make([]updateKey, 0, len(u.dirty))
	for key := range u.dirty {
		keys = append(keys, key)
	}
	lists := make([]listKey, 0, len(u.lists))
	for key := range u.lists {
		lists = append(lists, key)
	}
	clear(u.dirty)
	clear(u.lists)
	u.timer, u.told = nil, u.s.Now()
	u.startTask(func() {
		ctx, cancel := context.WithTimeout(u.ctx, notifyTimeout)
		defer cancel()
		u.s.notifyUpdated(ctx, keys, lists)
	})
}

// notifyTimeout bounds one notification of the processes.
const notifyTimeout = 10 * time.Second

// deliverUpdates marks updated resources for their followers.
func (u *updates) deliverUpdates(keys []updateKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range keys {
		from := u.sources[key]
		if from == nil {
			continue
		}
		for f := range from.followers {
			f.pending[key] = from.uri
			wakeUp(f.wake)
		}
	}
}

// reloadFollowers makes followers check their subscriptions.
func (u *updates) reloadFollowers(which func(*follower) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.followers {
		if which(f) {
			wakeUp(f.reload)
		}
	}
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// keepLingering records a subscription on a server. It ends after [Config.Linger] if it gets no follower.
func (u *updates) keepLingering(key updateKey, server tool.Server, uri string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if from := u.getSource(key, server, uri); len(from.followers) == 0 {
		u.expireLater(key, from)
	}
}

func (u *updates) getSource(key updateKey, server tool.Server, uri string) *source {
	from := u.sources[key]
	if from == nil {
		from = &source{uri: uri, followers: map[*follower]struct{}{}}
		u.sources[key] = from
	}
	from.server = server
	return from
}

// expireLater ends a subscription without followers after [Config.Linger], so that a client that opens its stream again finds it.
func (u *updates) expireLater(key updateKey, from *source) {
	if from.ending != nil {
		from.ending.Stop()
	}
	if u.closed {
		return
	}
	from.ending = time.AfterFunc(u.s.Linger, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.sources[key] != from || len(from.followers) > 0 {
			return
		}
		delete(u.sources, key)
		u.startTask(func() {
			u.s.Upstream.Unsubscribe(u.ctx, from.server, from.uri)
			u.reviveFollowers(key)
		})
	})
}

// reviveFollowers handles followers that came while the subscription was being ended on the server: they subscribe again.
func (u *updates) reviveFollowers(key updateKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if from := u.sources[key]; from != nil {
		for f := range from.followers {
			wakeUp(f.reload)
		}
	}
}

// setFollowed sets the resources that a follower follows.
func (u *updates) setFollowed(f *follower, now map[updateKey]*source) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range f.keys {
		if now[key] != nil {
			continue
		}
		delete(f.pending, key)
		delete(f.keys, key)
		if from := u.sources[key]; from != nil {
			delete(from.followers, f)
			if len(from.followers) == 0 {
				u.expireLater(key, from)
			}
		}
	}
	if _, open := u.followers[f]; !open {
		return // the follower ended meanwhile
	}
	for key, wanted := range now {
		from := u.getSource(key, wanted.server, wanted.uri)
		from.followers[f] = struct{}{}
		f.keys[key] = struct{}{}
		if from.ending != nil {
			from.ending.Stop()
			from.ending = nil
		}
	}
}

// Channel carries notifications between processes: changed resources, lists and subscriptions.
const Channel postgres.Channel = "holdpoint_resources"

// notice is the payload of a notification. It names resources by their hashes to be short.
type notice struct {
	Updated      []updateKey `json:"updated,omitempty"`
	Conversation *uuid.UUID  `json:"conversation,omitempty"` // whose subscriptions changed
	Lists        []listKey   `json:"lists,omitempty"`
}

// maxNotice bounds the updates in one notification, to stay within PostgreSQL's 8,000 bytes.
const maxNotice = 30

// notifySubscriptions notifies all processes, including this one, that a session's subscriptions changed.
func notifySubscriptions(ctx context.Context, tx pgx.Tx, conversation uuid.UUID) error {
	payload, err := json.Marshal(notice{Conversation: &conversation})
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, string(payload))
	}
	if err != nil {
		return fmt.Errorf("notify of subscriptions: %w", err)
	}
	return nil
}

// notifyUpdated notifies all processes, including this one, that resources and lists changed.
func (s *Service) notifyUpdated(ctx context.Context, keys []updateKey, lists []listKey) {
	var payloads []string
	for len(keys) > 0 || len(lists) > 0 {
		n, m := min(len(keys), maxNotice), min(len(lists), maxNotice)
		payload, err := json.Marshal(notice{Updated: keys[:n], Lists: lists[:m]})
		if err != nil {
			panic(err) // cannot happen: it has only hashes and ids
		}
		payloads, keys, lists = append(payloads, string(payload)), keys[n:], lists[m:]
	}
	_, err := s.Pool.Exec(ctx, `SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload`, Channel, payloads)
	if err == nil {
		return
	}
	s.Logger.WarnContext(ctx, "notify other processes of updated resources", "error", err)
	for _, payload := range payloads { // this process at least
		s.HandleNotification(payload)
	}
}

// HandleNotification handles a notification of [Channel].
func (s *Service) HandleNotification(payload string) {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		s.Logger.Warn("unreadable notification", "channel", Channel, "error", err)
		return
	}
	s.updates.deliverUpdates(n.Updated)
	for _, changed := range n.Lists {
		s.Changed(changed.Skill)
	}
	s.updates.markLists(n.Lists)
	if n.Conversation != nil {
		s.updates.reloadFollowers(func(f *follower) bool { return f.session && f.who.Conversation == *n.Conversation })
	}
}

// CatchUp makes up for missed notifications.
func (s *Service) CatchUp() { s.updates.reloadFollowers(func(*follower) bool { return true }) }
