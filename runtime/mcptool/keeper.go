package mcptool

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// closeTime bounds the end of a session that nobody waits for.
const closeTime = 15 * time.Second

// keeper keeps one skill's peer, at one revision of the skill. Whoever needs a
// peer while there is none waits for one attempt to connect, which belongs to
// nobody: it goes on when those who wait give up.
type keeper struct {
	source *Source
	server tool.Server

	mu      sync.Mutex
	retired bool
	current *held
	attempt *attempt
	era     era
	rest    rest
	used    time.Time   // when the peer was last asked for or given back
	idle    *time.Timer // see watchIdle; nil: everybody shares the peer

	announcing, again bool // see changed

	subscriptions map[string]*subscription // by URI
}

// attempt is connecting, under way.
type attempt struct {
	done    chan struct{}
	failure *tool.Failure // set before done is closed
}

// held is a peer and how many use it.
type held struct {
	keeper  *keeper
	peer    peer
	since   time.Time
	once    sync.Once
	users   int  // keeper.mu
	dropped bool // keeper.mu: no longer current, closed when unused
	// logLevel is that of the session, counted from 1; 0: the server's own choice. keeper.mu
	logLevel int
}

// acquire returns the peer, connecting if need be. retired: the skill was
// changed or forgotten; ask the Source again.
func (k *keeper) acquire(ctx context.Context) (h *held, failure *tool.Failure, retired bool) {
	for {
		k.mu.Lock()
		if k.retired {
			k.mu.Unlock()
			return nil, nil, true
		}
		k.used = k.source.config.Now()
		if h := k.current; h != nil && h.peer.broken() {
			k.drop(h)
		}
		if h := k.current; h != nil {
			h.users++
			k.mu.Unlock()
			return h, nil, false
		}
		if k.attempt == nil {
			if failure := k.rest.refuses(k.source.config.Now()); failure != nil {
				k.mu.Unlock()
				return nil, failure, false
			}
			k.start(ctx)
		}
		a := k.attempt
		k.mu.Unlock()
		select {
		case <-a.done:
			if a.failure != nil {
				return nil, a.failure, false
			}
		case <-ctx.Done():
			return nil, tool.Ended(ctx, tool.EffectNone, "connect to skill "+k.server.Skill), false
		}
	}
}

// start starts an attempt, which ctx needs, and which does not end with it. The caller holds k.mu.
func (k *keeper) start(ctx context.Context) {
	a := &attempt{done: make(chan struct{})}
	k.attempt = a
	e := k.era
	started := k.source.tasks.run(func() {
		h := &handshake{now: k.source.config.Now}
		ctx, seen := k.source.observeConnect(k.source.ctx, ctx, k.server)
		p, failure := k.source.connect(ctx, k.server, e, h, k.listener())
		seen.end(nil, failure)
		k.finish(a, p, failure)
	})
	if !started { // the Source was closed
		a.failure = tool.BrokeOff(tool.EffectNone, errPeerClosed, "skill %s: connections are being closed", k.server.Skill)
		close(a.done)
	}
}

// finish makes the peer current, unless it is not wanted any more.
func (k *keeper) finish(a *attempt, p peer, failure *tool.Failure) {
	k.mu.Lock()
	k.attempt = nil
	a.failure = failure
	now := k.source.config.Now()
	k.used = now
	var unwanted *held
	if failure != nil {
		k.era = eraUnknown // the server may have become another
		if k.server.Transport == tool.Stdio {
			k.rest.failed(now, failure)
		}
	} else {
		k.era = eraLegacy
		if p.negotiated().modern() {
			k.era = eraModern
		}
		h := &held{keeper: k, peer: p, since: now}
		k.source.track(h)
		if k.retired {
			h.dropped, unwanted = true, h
		} else {
			k.current = h
		}
	}
	close(a.done)
	k.mu.Unlock()
	if unwanted != nil {
		unwanted.closeNow()
	}
}

// drop takes a peer out of use. The caller holds k.mu.
func (k *keeper) drop(h *held) {
	if h.dropped {
		return
	}
	h.dropped = true
	if k.current == h {
		k.current = nil
	}
	if h.peer.broken() {
		k.rest.broke(k.source.config.Now(), h.since)
	}
	if h.users == 0 {
		h.closeLater()
	}
}

// release gives a peer back. anew: the next request should find another.
func (h *held) release(anew bool) {
	k := h.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	h.users--
	k.used = k.source.config.Now()
	switch {
	case h.dropped && h.users == 0:
		h.closeLater()
	case anew || h.peer.broken():
		k.drop(h)
	}
}

// retire ends the keeper: its peer is closed when nobody uses it.
func (k *keeper) retire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retireLocked()
}

func (k *keeper) retireLocked() {
	k.retired = true
	if k.idle != nil {
		k.idle.Stop()
	}
	if k.current != nil {
		k.drop(k.current)
	}
}

// closeLater closes a peer that nobody uses, without holding anybody up. When
// the Source is being closed, Close does it.
func (h *held) closeLater() {
	if s := h.keeper.source; s.ctx.Err() == nil {
		s.tasks.run(h.closeNow)
	}
}

// closeNow closes a peer, giving it some time to end by itself; none after
// the time of Source.Close ran out.
func (h *held) closeNow() {
	ctx, cancel := context.WithTimeout(h.keeper.source.patient, closeTime)
	defer cancel()
	h.close(ctx)
}

func (h *held) close(ctx context.Context) {
	h.once.Do(func() {
		h.peer.close(ctx)
		h.keeper.source.untrack(h)
	})
}

func (s *Source) track(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[h] = struct{}{}
}

func (s *Source) untrack(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, h)
}

// listener is who hears what the peer's server says unasked.
func (k *keeper) listener() listener {
	key := keyOf(k.server)
	return listener{
		changed:    k.changed,
		progressed: func(params json.RawMessage) { k.source.errands.progressed(key, params) },
		updated:    k.heardUpdate,
		subscribed: k.subscribed,
		relisted:   k.relisted,
	}
}

// changed passes on that the server announced other tools. However many
// announcements come, one call is under way at a time, and one follows it.
func (k *keeper) changed() {
	announce := k.source.config.ListChanged
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case announce == nil || k.retired:
		return
	case k.announcing:
		k.again = true
		return
	}
	k.announcing = k.source.tasks.run(func() {
		for {
			announce(k.server.SkillID)
			k.mu.Lock()
			if !k.again {
				k.announcing = false
				k.mu.Unlock()
				return
			}
			k.again = false
			k.mu.Unlock()
		}
	})
}
