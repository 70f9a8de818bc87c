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
	watchTick  = 5 * time.Second  // between two rounds when nobody says that something changed
	watchPause = time.Second      // between two rounds at least
	watchEach  = 30 * time.Second // after which each listener is looked at on its own
	maxLooks   = 8                // at once
	maxTold    = 100_000          // sessions of which it is known what they were told
)

// listener is an open response on which changes of a conversation's catalog are
// announced. Its agent and conversation do not change; what the watch guards is below.
type listener struct {
	agentID, principal uuid.UUID
	session            uuid.UUID     // uuid.Nil: a conversation that has a name
	name               func() string // of the conversation now; nil: a session's
	find               func(context.Context) (*catalog.Conversation, error)

	quiet   bool                   // changes of the list are not announced: the stream is about tasks
	tasks   <-chan [][]byte        // what is to be told of them; nil: nothing
	updates <-chan resource.Change // of resources and lists; nil: nothing
	lists   []resource.Kind        // whose changes are told
	cancel  context.CancelCauseFunc
	wake    chan struct{} // holds one: there is something to announce

	seen   view           // as of the last look, its own or another's
	told   catalog.Digest // what its client was told last, or that it changed to
	looked time.Time      // on its own
}

// view is what a conversation looked like. Conversations of one agent and principal that
// looked alike will look alike after a change too.
type view struct {
	digest  catalog.Digest
	missing string // the skills that are missing from it
}

func viewOf(c *catalog.Conversation) view {
	var missing strings.Builder
	for _, p := range c.Problems {
		missing.WriteString(p.Skill + "\x00" + p.Kind + "\x00")
	}
	return view{c.Catalog.Digest(), missing.String()}
}

// watch finds out when the catalogs of open listeners change. It goes in rounds:
// after each notice, and every five seconds in case one was missed or a skill that could not be
// listed can be now. A round looks at one of those listeners that looked alike, so that it
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
	failed    []error                      // looks of this round
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

// add begins to watch for a listener. A session has one: a client that opens a second has
// lost the first, or will not miss it.
func (w *watch) add(l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.looked = w.now()
	if l.session != uuid.Nil {
		if before := w.bySession[l.session]; before != nil {
			before.cancel(errReplaced)
		}
		w.bySession[l.session] = l
		l.told = w.told[l.session] // not known: none, which differs from every one
	}
	if l.told != l.seen.digest {
		l.announce(l.seen.digest)
	}
	w.open[l] = struct{}{}
	switch {
	case w.ctx.Err() != nil:
		l.cancel(errDrain)
	case len(w.open) > 1 || w.busy:
	case w.timer == nil:
		w.timer = time.AfterFunc(watchTick, w.round)
	default:
		w.timer.Reset(watchTick)
	}
}

// announce has the listener's client told of a change.
func (l *listener) announce(digest catalog.Digest) {
	l.told = digest
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (w *watch) remove(l *listener) {
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

// listed notes what a session's client was told.
func (w *watch) listed(session uuid.UUID, digest catalog.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.told[session]; !known && len(w.told) >= maxTold {
		for other := range w.told { // whoever it is will be told of a change that is none
			delete(w.told, other)
			break
		}
	}
	w.told[session] = digest
	if l := w.bySession[session]; l != nil {
		l.told = digest
	}
}

// end lets go of the listener of a session that has ended.
func (w *watch) end(session uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, session)
	if l := w.bySession[session]; l != nil {
		l.cancel(errEnded)
	}
}

// drain lets go of all listeners, and of those that come.
func (w *watch) drain() {
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

// soon has a round begin, at once where the last one is not just over.
func (w *watch) soon() {
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

// round is the timer's: it looks at all listeners.
func (w *watch) round() {
	groups, ok := w.begin()
	if !ok {
		return
	}
	slots := make(chan struct{}, maxLooks)
	var looks sync.WaitGroup
	for _, alike := range groups {
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			w.look(alike)
		})
	}
	looks.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.ended = false, w.now()
	if len(w.failed) > 0 && w.ctx.Err() == nil {
		w.log.Warn("looking for changes of catalogs", "failed", len(w.failed), "error", w.failed[0])
	}
	if len(w.open) > 0 && w.ctx.Err() == nil {
		next := watchTick
		if w.again {
			next = watchPause
		}
		w.timer.Reset(next)
	}
}

// group is what listeners have in common that are looked at together.
type group struct {
	agentID, principal uuid.UUID
	name               string
	seen               view
	alone              *listener
}

// begin puts together those of whom one stands for all.
func (w *watch) begin() (map[group][]*listener, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		w.again = true // the timer was set while it fired
		return nil, false
	}
	w.busy, w.again, w.failed = true, false, nil
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
	return groups, true
}

// look looks at the first of listeners that were alike whose conversation has not ended, and
// takes what it sees for what there is to see for the others.
func (w *watch) look(alike []*listener) {
	defer func() {
		if cause := recover(); cause != nil { // one look is not worth the process
			w.fail(fmt.Errorf("panic: %v", cause))
		}
	}()
	for i, l := range alike {
		found, err := l.find(w.ctx)
		switch {
		case errors.Is(err, agent.ErrNotFound):
			l.cancel(errEnded)
			continue
		case err != nil:
			w.fail(err)
		default:
			w.saw(viewOf(found), l, alike[i:])
		}
		return
	}
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, err)
}

func (w *watch) saw(now view, looked *listener, alike []*listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	looked.looked = w.now()
	for _, l := range alike {
		l.seen = now
		if l.told != now.digest {
			l.announce(now.digest)
		}
	}
}
