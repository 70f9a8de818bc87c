package resource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/google/uuid"

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

// updateKey is a resource of a skill: of a skill with connections of people's own, as one person has it.
type updateKey struct {
	Skill     uuid.UUID `json:"s"`
	Principal uuid.UUID `json:"p,omitzero"`
	URI       hash      `json:"u"`
}

func updateKeyOf(o *catalog.Offer, uri string) updateKey {
	key := updateKey{Skill: o.Skill.ID, URI: sha256.Sum256([]byte(uri))}
	if o.Server.PerUser {
		key.Principal = o.Server.Principal
	}
	return key
}

// source is a resource that a skill's server tells this process of.
type source struct {
	server    tool.Server
	uri       string
	followers map[*follower]struct{}
	ending    *time.Timer // runs while nobody follows it
}

// updates is what this process hears of, and who follows it.
type updates struct {
	s *Service

	background sync.WaitGroup
	ctx        context.Context //nolint:containedctx // ends with the service
	cancel     context.CancelFunc

	mu        sync.Mutex
	closed    bool
	sources   map[updateKey]*source
	followers map[*follower]struct{}
	dirty     map[updateKey]struct{} // changed, and the processes are not told yet
	lists     map[listKey]struct{}   // likewise
	timer     *time.Timer            // until they are told; nil: none runs
	told      time.Time
}

func newUpdates(s *Service) *updates {
	u := &updates{s: s, sources: map[updateKey]*source{}, followers: map[*follower]struct{}{}, dirty: map[updateKey]struct{}{}, lists: map[listKey]struct{}{}}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

func (u *updates) close() {
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

// run starts f in the background, unless the service was closed. The caller holds u.mu.
func (u *updates) run(f func()) {
	if !u.closed {
		u.background.Go(f)
	}
}

// Updated takes in that a skill's server said that a resource changed. It costs little however often it is called: what this process did not
// ask for is dropped, and the processes are told of all others together, twice a second at most.
func (s *Service) Updated(skillID, principal uuid.UUID, uri string) {
	key := updateKey{Skill: skillID, Principal: principal, URI: sha256.Sum256([]byte(uri))}
	u := s.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.sources[key] == nil {
		return
	}
	u.dirty[key] = struct{}{}
	u.flushSoon()
}

// flushSoon has the processes told, after a pause if they just were. The caller holds u.mu.
func (u *updates) flushSoon() {
	if u.timer == nil {
		u.timer = time.AfterFunc(max(0, u.told.Add(u.s.Pause).Sub(u.s.Now())), u.flush)
	}
}

// flush tells the processes.
func (u *updates) flush() {
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
	u.run(func() {
		ctx, cancel := context.WithTimeout(u.ctx, tellTimeout)
		defer cancel()
		u.s.tellUpdated(ctx, keys, lists)
	})
}

// tellTimeout bounds one notification of the other processes.
const tellTimeout = 10 * time.Second

// deliver tells those who follow resources here that they changed.
func (u *updates) deliver(keys []updateKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range keys {
		from := u.sources[key]
		if from == nil {
			continue
		}
		for f := range from.followers {
			f.pending[key] = from.uri
			signal(f.wake)
		}
	}
}

// reload has followers look at their subscriptions again.
func (u *updates) reload(which func(*follower) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.followers {
		if which(f) {
			signal(f.again)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// linger notes what a server was asked to tell. Somebody has to follow it soon.
func (u *updates) linger(key updateKey, server tool.Server, uri string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if from := u.source(key, server, uri); len(from.followers) == 0 {
		u.expire(key, from)
	}
}

func (u *updates) source(key updateKey, server tool.Server, uri string) *source {
	from := u.sources[key]
	if from == nil {
		from = &source{uri: uri, followers: map[*follower]struct{}{}}
		u.sources[key] = from
	}
	from.server = server
	return from
}

// expire ends what nobody follows, after a while: a client that opens its stream anew asks nobody anew.
func (u *updates) expire(key updateKey, from *source) {
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
		u.run(func() {
			u.s.Upstream.Unsubscribe(u.ctx, from.server, from.uri)
			u.revive(key)
		})
	})
}

// revive makes good for a follower that came while the server was told that there was none.
func (u *updates) revive(key updateKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if from := u.sources[key]; from != nil {
		for f := range from.followers {
			signal(f.again)
		}
	}
}

// follow sets what a follower follows.
func (u *updates) follow(f *follower, now map[updateKey]*source) {
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
				u.expire(key, from)
			}
		}
	}
	if _, open := u.followers[f]; !open {
		return // it ended meanwhile
	}
	for key, wanted := range now {
		from := u.source(key, wanted.server, wanted.uri)
		from.followers[f] = struct{}{}
		f.keys[key] = struct{}{}
		if from.ending != nil {
			from.ending.Stop()
			from.ending = nil
		}
	}
}
