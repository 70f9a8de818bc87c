package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

const (
	watchTick  = 5 * time.Second  // between two rounds without a notice
	watchPause = time.Second      // the minimum between two rounds
	watchEach  = 30 * time.Second // after which each listener is checked individually
	maxLooks   = 8                // at once
	maxTold    = 100_000          // sessions with a known list
)

// listener is an open response for notifications of changes of a conversation's catalog. Agent and conversation do not change;
// the watch guards the fields below.
type listener struct {
	agentID, principal uuid.UUID
	session            uuid.UUID     // uuid.Nil: a conversation that has a name
	name               func() string // of the conversation now; nil: a session's
	find               func(context.Context) (*catalog.Conversation, error)

	quiet   bool                   // the client did not subscribe to changes of its tools
	tasks   <-chan task            // states of tasks to send; nil: none
	updates <-chan resource.Change // of resources and lists; nil: none
	lists   []resource.Kind        // that the client subscribed to
	cancel  context.CancelCauseFunc
	wake    chan struct{} // holds one: the list has changed

	seen   view           // as of the last check, its own or shared
	told   catalog.Digest // of the list that its client has, or was told of
	looked time.Time      // the last individual check
}

// view is a summary of a conversation's catalog. Conversations of one agent and principal with equal views stay equal after a
// change.
type view struct {
	digest  catalog.Digest
	missing string // the missing skills
}

func viewOf(c *catalog.Conversation) view {
	var missing strings.Builder
	for _, p := range c.Problems {
		missing.WriteString(p.Skill + "\x00" + p.Kind + "\x00")
	}
	return view{c.Catalog.Digest(), missing.String()}
}

// watch detects changes of the catalogs of open listeners. It runs in rounds: after each notice, and every five seconds in case
// a notice was lost or a failed listing works again. A round checks one listener for each group with equal views, so that it
// costs little, however many clients an agent has.
type watch struct {
	log  *slog.Logger
	now  func() time.Time
	ctx  context.Context //nolint:containedctx // ends when the process drains
	stop context.CancelFunc

	mu        sync.Mutex
	open      map[*listener]struct{}
	bySession map[uuid.UUID]*listener
	told      map[uuid.UUID]catalog.Digest // by tools/list, by session
	timer     *time.Timer                  // of the next round
	busy      bool                         // a round is under way
	again     bool                         // and another is wanted
	ended     time.Time                    // of the last round
	failed    []error                      // checks of this round
}

func newWatch(log *slog.Logger, now func() time.Time) *watch {
	w := &watch{
		log: log, now: now,
		open:      make(map[*listener]struct{}),
		bySession: make(map[uuid.UUID]*listener),
		told:      make(map[uuid.UUID]catalog.Digest),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// addListener starts to watch for a listener. A session has one: a second stream replaces the first.
func (w *watch) addListener(l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.looked = w.now()
	if l.session != uuid.Nil {
		if before := w.bySession[l.session]; before != nil {
			before.cancel(errReplaced)
		}
		w.bySession[l.session] = l
		l.told = w.told[l.session] // zero if unknown, which differs from every digest
	}
	if l.told != l.seen.digest {
		l.announceChange(l.seen.digest)
	}
	w.open[l] = struct{}{}
	switch {
	case w.ctx.Err() != nil:
		l.cancel(errDrain)
	case len(w.open) > 1 || w.busy:
	case w.timer == nil:
		w.timer = time.AfterFunc(watchTick, w.runRound)
	default:
		w.timer.Reset(watchTick)
	}
}

// announceChange wakes the listener's stream to notify its client.
func (l *listener) announceChange(digest catalog.Digest) {
	l.told = digest
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (w *watch) removeListener(l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, l)
	if w.bySession[l.session] == l {
		delete(w.bySession, l.session)
	}
	if len(w.open) == 0 && w.timer != nil {
		w.timer.Stop()
	}
}

// noteListed records the list that a session's client has.
func (w *watch) noteListed(session uuid.UUID, digest catalog.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.told[session]; !known && len(w.told) >= maxTold {
		for other := range w.told { // that session gets one needless notification
			delete(w.told, other)
			break
		}
	}
	w.told[session] = digest
	if l := w.bySession[session]; l != nil {
		l.told = digest
	}
}

// endSession ends the listener of a session that has ended.
func (w *watch) endSession(session uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, session)
	if l := w.bySession[session]; l != nil {
		l.cancel(errEnded)
	}
}

// drainListeners ends all listeners, and later ones.
func (w *watch) drainListeners() {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	for l := range w.open {
		l.cancel(errDrain)
	}
}

// scheduleRound starts a round, at least watchPause after the last one.
func (w *watch) scheduleRound() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.open) == 0 || w.ctx.Err() != nil:
	case w.busy:
		w.again = true
	default:
		w.timer.Reset(max(0, w.ended.Add(watchPause).Sub(w.now())))
	}
}

// runRound checks all listeners. The timer calls it.
func (w *watch) runRound() {
	w.mu.Lock()
	if w.busy {
		w.again = true // the timer was set while it fired
		w.mu.Unlock()
		return
	}
	w.busy, w.again, w.failed = true, false, nil
	groups := w.groupListeners()
	w.mu.Unlock()
	slots := make(chan struct{}, maxLooks)
	var looks sync.WaitGroup
	for _, alike := range groups {
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			w.checkListeners(alike)
		})
	}
	looks.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.ended = false, w.now()
	if len(w.failed) > 0 && w.ctx.Err() == nil {
		w.log.Warn("check catalogs for changes", "failed", len(w.failed), "error", w.failed[0])
	}
	if len(w.open) > 0 && w.ctx.Err() == nil {
		next := watchTick
		if w.again {
			next = watchPause
		}
		w.timer.Reset(next)
	}
}

// group is the key of listeners that are checked together.
type group struct {
	agentID, principal uuid.UUID
	name               string
	seen               view
	alone              *listener
}

// groupListeners groups the listeners with equal views. Listeners whose individual check is due are alone.
func (w *watch) groupListeners() map[group][]*listener {
	now := w.now()
	groups := make(map[group][]*listener)
	for l := range w.open {
		key := group{agentID: l.agentID, principal: l.principal, seen: l.seen}
		if l.name != nil {
			key.name = l.name()
		}
		if now.Sub(l.looked) >= watchEach {
			key.alone = l
		}
		groups[key] = append(groups[key], l)
	}
	return groups
}

// checkListeners checks one listener for the whole group, the first whose conversation has not ended, and shares the result.
func (w *watch) checkListeners(alike []*listener) {
	defer func() {
		if cause := recover(); cause != nil { // a panic in a check must not end the process
			w.noteFailure(fmt.Errorf("panic: %v", cause))
		}
	}()
	for i, l := range alike {
		found, err := l.find(w.ctx)
		switch {
		case errors.Is(err, agent.ErrNotFound):
			l.cancel(errEnded)
			continue
		case err != nil:
			w.noteFailure(err)
		default:
			w.recordView(viewOf(found), l, alike[i:])
		}
		return
	}
}

func (w *watch) noteFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, err)
}

func (w *watch) recordView(now view, looked *listener, alike []*listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	looked.looked = w.now()
	for _, l := range alike {
		l.seen = now
		if l.told != now.digest {
			l.announceChange(now.digest)
		}
	}
}
