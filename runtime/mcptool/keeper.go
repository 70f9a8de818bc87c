package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// keeper keeps one skill's session, at one revision of the skill. Callers that need a session while there is none wait for the same
// attempt to connect. The attempt goes on when they stop waiting.
type keeper struct {
	source *Source
	server tool.Server

	mu      sync.Mutex
	retired bool
	current *heldSession
	attempt *attempt
	era     session.Era
	restart restartPause
	used    time.Time   // when the session was last acquired or released
	idle    *time.Timer // see watchIdle

	announcing, again bool // see announceTools

	subscriptions map[string]*subscription // by URI
}

// attempt is an attempt to connect that has not ended.
type attempt struct {
	done    chan struct{}
	failure *tool.Failure // set before done is closed
}

// heldSession is a session and the number of its users.
type heldSession struct {
	keeper   *keeper
	session  session.Session
	since    time.Time
	once     sync.Once
	users    int  // keeper.mu
	dropped  bool // keeper.mu: no longer current, closed when unused
	logLevel int  // keeper.mu: rank of the session's log level; 0: not set
}

// closeTime bounds closing a session in the background.
const closeTime = 15 * time.Second

// acquireSession returns the session, and connects if there is none. If retired is set, the skill was changed or forgotten: the Source has
// another keeper.
func (k *keeper) acquireSession(ctx context.Context) (h *heldSession, failure *tool.Failure, retired bool) {
	for {
		k.mu.Lock()
		if k.retired {
			k.mu.Unlock()
			return nil, nil, true
		}
		k.used = k.source.config.Now()
		if h := k.current; h != nil && h.session.IsBroken() {
			k.dropSession(h)
		}
		if h := k.current; h != nil {
			h.users++
			k.mu.Unlock()
			return h, nil, false
		}
		if k.attempt == nil {
			if failure := k.restart.checkPause(k.source.config.Now()); failure != nil {
				k.mu.Unlock()
				return nil, failure, false
			}
			k.startConnecting(ctx)
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

// startConnecting starts an attempt to connect. It is part of the trace of ctx, but does not end with ctx. The caller holds k.mu.
func (k *keeper) startConnecting(ctx context.Context) {
	a := &attempt{done: make(chan struct{})}
	k.attempt = a
	e := k.era
	started := k.source.background.Go(func() {
		h := &session.Handshake{Now: k.source.config.Now}
		ctx, seen := k.source.observeConnect(k.source.ctx, ctx, k.server)
		p, failure := k.source.connectServer(ctx, k.server, e, h, k.newListener())
		seen.finishObservation(nil, failure)
		k.finishConnecting(a, p, failure)
	})
	if !started { // the Source was closed
		a.failure = tool.BrokeOff(tool.EffectNone, session.ErrClosed, "skill %s: connections are being closed", k.server.Skill)
		close(a.done)
	}
}

// finishConnecting makes the session current, or closes it if the keeper is retired.
func (k *keeper) finishConnecting(a *attempt, p session.Session, failure *tool.Failure) {
	k.mu.Lock()
	k.attempt = nil
	a.failure = failure
	now := k.source.config.Now()
	k.used = now
	var unwanted *heldSession
	if failure != nil {
		k.era = session.EraUnknown // the server may have been replaced
		if k.server.Transport == tool.Stdio {
			k.restart.recordFailure(now, failure)
		}
	} else {
		k.era = session.EraLegacy
		if p.Info().IsStateless() {
			k.era = session.EraModern
		}
		h := &heldSession{keeper: k, session: p, since: now}
		k.source.mu.Lock()
		k.source.live[h] = struct{}{}
		k.source.mu.Unlock()
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

// dropSession takes a session out of use. The caller holds k.mu.
func (k *keeper) dropSession(h *heldSession) {
	if h.dropped {
		return
	}
	h.dropped = true
	if k.current == h {
		k.current = nil
	}
	if h.session.IsBroken() {
		k.restart.recordBreak(k.source.config.Now(), h.since)
	}
	if h.users == 0 {
		h.closeLater()
	}
}

// releaseSession ends the use of a session. If renew is set, the next request gets another session.
func (h *heldSession) releaseSession(renew bool) {
	k := h.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	h.users--
	k.used = k.source.config.Now()
	switch {
	case h.dropped && h.users == 0:
		h.closeLater()
	case renew || h.session.IsBroken():
		k.dropSession(h)
	}
}

// retireKeeper ends the keeper. Its session is closed when the last user releases it.
func (k *keeper) retireKeeper() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retireLocked()
}

// retireLocked is retireKeeper for a caller that holds k.mu.
func (k *keeper) retireLocked() {
	k.retired = true
	k.idle.Stop()
	if k.current != nil {
		k.dropSession(k.current)
	}
}

// closeLater closes an unused session in the background. While the Source is being closed, Close does it.
func (h *heldSession) closeLater() {
	if s := h.keeper.source; s.ctx.Err() == nil {
		s.background.Go(h.closeNow)
	}
}

// closeNow closes a session. It gives the server some time to end, but none after the time of Source.Close ran out.
func (h *heldSession) closeNow() {
	ctx, cancel := context.WithTimeout(h.keeper.source.patient, closeTime)
	defer cancel()
	h.closeOnce(ctx)
}

func (h *heldSession) closeOnce(ctx context.Context) {
	h.once.Do(func() {
		h.session.Close(ctx)
		s := h.keeper.source
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live, h)
	})
}

// newListener returns the listener of the keeper's sessions.
func (k *keeper) newListener() session.Listener {
	key := session.KeyOf(k.server)
	return session.Listener{
		ToolsChanged:    k.announceTools,
		Progress:        func(params json.RawMessage) { k.source.operations.HandleProgress(key, params) },
		ResourceUpdated: k.handleUpdate,
		SubscribedURIs:  k.subscribedURIs,
		OffersChanged:   k.announceOffers,
	}
}

// announceTools calls Config.ListChanged. Only one call runs at a time; all announcements during it are followed by one more call.
func (k *keeper) announceTools() {
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
	k.announcing = k.source.background.Go(func() {
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

// announceOffers calls Config.OffersChanged.
func (k *keeper) announceOffers(method string) {
	if tell := k.source.config.OffersChanged; tell != nil {
		tell(k.server.SkillID, method)
	}
}

// requestLogs sets the log level that an operation wants, in revisions with sessions. Callers share the level of the session, so it is set
// to the lowest that any operation wanted, and never raised. Each operation filters the messages. If the server refuses, the request goes
// on.
func (h *heldSession) requestLogs(ctx context.Context, r *session.Request) {
	op, info := r.Operation, h.session.Info()
	if !op.WantsLogs() || info.IsStateless() || !info.Capabilities.Logging || !session.AllowsQuestions(r.Method) {
		return
	}
	wanted := session.RankLogLevel(op.Caller.LogLevel)
	h.keeper.mu.Lock()
	set := h.logLevel != 0 && h.logLevel <= wanted
	if !set {
		h.logLevel = wanted
	}
	h.keeper.mu.Unlock()
	if set {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	out := h.session.Exchange(ctx, &session.Request{
		Method: "logging/setLevel", Members: rawjson.AppendString([]byte(`"level":`), op.Caller.LogLevel),
		Limit: session.EnvelopeRoom, Label: "logging/setLevel",
	})
	if out.Failure != nil {
		op.Logger.Debug("set the level of a server's messages", "error", out.Failure)
	}
}

// logPatience is how long a request waits for a server to set the log level.
const logPatience = 2 * time.Second

// watchIdle ends the keeper when its session is unused for a while, so that the number of sessions and child processes is not that of all
// skills, and all people, that ever made a call. A session that all people share stays for much longer: it hears of changed tools, and calls that
// wait for a person may need what it remembers. The caller holds Source.mu.
func (k *keeper) watchIdle() {
	k.used = k.source.config.Now()
	k.idle = time.AfterFunc(math.MaxInt64, k.closeIdle) // closeIdle needs k.idle, so the timer starts when that is set
	k.idle.Reset(k.idleLimit())
}

// idleLimit returns how long an unused session is kept.
func (k *keeper) idleLimit() time.Duration {
	if k.server.PerUser {
		return k.source.config.Limits.SessionIdle
	}
	return k.source.config.Limits.SharedIdle
}

// closeIdle ends the keeper if it was idle for long enough, and checks again later otherwise.
func (k *keeper) closeIdle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.retired {
		return
	}
	limit := k.idleLimit()
	left := limit - k.source.config.Now().Sub(k.used)
	switch {
	case !k.isIdle():
		k.idle.Reset(limit)
	case left > 0:
		k.idle.Reset(left)
	default:
		k.endKeeper()
	}
}

// isIdle reports whether nothing needs the session now. The caller holds k.mu.
func (k *keeper) isIdle() bool {
	return (k.current == nil || k.current.users == 0) && k.attempt == nil && len(k.subscriptions) == 0
}

// endKeeper removes the keeper from the source and retires it. The caller holds k.mu, and locks Source.mu after it.
func (k *keeper) endKeeper() {
	s, key := k.source, session.KeyOf(k.server)
	s.mu.Lock()
	if s.keepers[key] == k {
		delete(s.keepers, key)
	}
	s.mu.Unlock()
	k.retireLocked()
}

// trimSessions ends the idle sessions of people that are unused for the longest time, until there are few enough.
func (s *Source) trimSessions() {
	type candidate struct {
		keeper *keeper
		used   time.Time
	}
	var all []candidate
	for _, k := range s.personalKeepers() {
		k.mu.Lock()
		if k.current != nil && k.isIdle() {
			all = append(all, candidate{k, k.used})
		}
		k.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b candidate) int { return a.used.Compare(b.used) })
	for _, one := range all {
		if len(s.personalKeepers()) <= s.config.Limits.Sessions {
			return
		}
		one.keeper.mu.Lock()
		if !one.keeper.retired && one.keeper.isIdle() {
			one.keeper.endKeeper()
		}
		one.keeper.mu.Unlock()
	}
}

// personalKeepers returns the keepers of people's sessions.
func (s *Source) personalKeepers() []*keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*keeper
	for _, k := range s.keepers {
		if k.server.PerUser {
			list = append(list, k)
		}
	}
	return list
}

// The pauses before a child that keeps dying is started again.
const (
	minRestartPause = 250 * time.Millisecond
	maxRestartPause = 30 * time.Second
	// A child that lived for stableAfter is started again without a pause.
	stableAfter = 10 * time.Second
)

// restartPause limits restarts of a server that dies at once. After one death it is started at once, after several in a row with longer
// and longer pauses. Requests during a pause fail with the last failure.
type restartPause struct {
	deaths int
	until  time.Time
	last   *tool.Failure
}

// recordFailure records that connecting failed.
func (r *restartPause) recordFailure(now time.Time, failure *tool.Failure) {
	r.deaths++
	r.last = failure
	if r.deaths > 1 {
		r.until = now.Add(min(maxRestartPause, minRestartPause<<min(r.deaths-2, 16)))
	}
}

// recordBreak records that a session broke.
func (r *restartPause) recordBreak(now, since time.Time) {
	if now.Sub(since) >= stableAfter {
		*r = restartPause{}
		return
	}
	r.recordFailure(now, tool.BrokeOff(tool.EffectNone, nil, "the server died shortly after its start"))
}

// checkPause returns the failure of a request during a pause, else nil.
func (r *restartPause) checkPause(now time.Time) *tool.Failure {
	if r.last == nil || !now.Before(r.until) {
		return nil
	}
	f := *r.last
	f.Message = fmt.Sprintf("%s; it is started again in %s", f.Message, r.until.Sub(now).Round(100*time.Millisecond))
	return &f
}
