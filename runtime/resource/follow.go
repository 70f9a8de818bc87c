package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// Change is a notification to a client.
type Change struct {
	Updated []string // URIs of resources that it is subscribed to
	Lists   []Kind   // [Resources], which includes templates, and [Prompts]
}

// follower is a client's open stream of notifications about resources.
type follower struct {
	who     Who
	session bool           // its subscriptions are stored
	fixed   []Subscription // if they are not stored
	reload  chan struct{}  // holds one: check the subscriptions again
	wake    chan struct{}  // holds one: there are changes to report

	keys    map[updateKey]struct{} // updates.mu
	pending map[updateKey]string   // URIs. updates.mu
	lists   map[listKey]struct{}   // updates.mu

	// seen are the agent's open skills at the last check, if there was one. Only tellChanges uses them.
	seen   string
	looked bool
}

// FollowSession reports changes of the resources that a session subscribes to, in any process, and of the agent's lists, until ctx ends.
// Several changes may be reported as one.
func (s *Service) FollowSession(ctx context.Context, who Who) <-chan Change {
	return s.startFollowing(ctx, &follower{who: who, session: true})
}

// Follow reports changes of the resources that [Service.Subscribable] returned, and of the agent's lists, until ctx ends.
func (s *Service) Follow(ctx context.Context, who Who, subscriptions []Subscription) <-chan Change {
	return s.startFollowing(ctx, &follower{who: who, fixed: subscriptions})
}

func (s *Service) startFollowing(ctx context.Context, f *follower) <-chan Change {
	f.reload, f.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	f.keys, f.pending = map[updateKey]struct{}{}, map[updateKey]string{}
	f.lists = map[listKey]struct{}{}
	changes := make(chan Change)
	u := s.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return changes
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(u.ctx, cancel)
	u.followers[f] = struct{}{}
	u.startTask(func() {
		defer stop()
		defer cancel()
		defer s.stopFollowing(f)
		s.keepSubscribed(ctx, f)
	})
	u.startTask(func() {
		defer cancel()
		f.tellChanges(ctx, u, changes)
	})
	return changes
}

func (s *Service) stopFollowing(f *follower) {
	u := s.updates
	u.mu.Lock()
	delete(u.followers, f)
	u.mu.Unlock()
	u.setFollowed(f, nil)
}

// tellChanges sends the pending changes, at most once in half of [Config.Pause].
func (f *follower) tellChanges(ctx context.Context, u *updates, changes chan<- Change) {
	if _, err := u.s.changedLists(ctx, f, nil); err != nil {
		wakeUp(f.wake) // check again later
	}
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		// Two processes may have been notified of one change.
		timer := time.NewTimer(u.s.Pause / 2)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		change := u.takePending(ctx, f)
		if len(change.Updated) == 0 && len(change.Lists) == 0 {
			continue
		}
		select {
		case changes <- change:
		case <-ctx.Done():
			return
		}
	}
}

// takePending returns and clears the pending changes.
func (u *updates) takePending(ctx context.Context, f *follower) (c Change) {
	u.mu.Lock()
	for _, uri := range f.pending {
		c.Updated = append(c.Updated, uri)
	}
	clear(f.pending)
	lists := f.lists
	f.lists = map[listKey]struct{}{}
	u.mu.Unlock()
	var err error
	if c.Lists, err = u.s.changedLists(ctx, f, lists); err != nil && ctx.Err() == nil {
		u.s.Logger.WarnContext(ctx, "check lists for changes", "error", err)
		c.Lists = []Kind{Resources, Prompts} // any of them may have changed
	}
	return c
}

// keepSubscribed keeps this process subscribed, on the servers' current connections, to the resources that a client is subscribed to and
// may still read.
func (s *Service) keepSubscribed(ctx context.Context, f *follower) {
	for ctx.Err() == nil {
		wanted, err := s.refreshSubscriptions(ctx, f)
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "keep subscriptions to resources", "error", err)
		}
		var next <-chan time.Time
		timer := time.NewTimer(s.Renew)
		if wanted > 0 || err != nil { // otherwise a notification reports the first one
			next = timer.C
		}
		select {
		case <-next:
		case <-f.reload:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// refreshSubscriptions checks the subscriptions once, and returns their number.
func (s *Service) refreshSubscriptions(ctx context.Context, f *follower) (int, error) {
	all := f.fixed
	if f.session {
		var err error
		if all, err = s.readSubscriptions(ctx, f.who.Conversation); err != nil {
			return 0, err
		}
	}
	var may map[Subscription]*catalog.Offer
	if len(all) > 0 {
		var err error
		if may, err = s.filterAllowed(ctx, f.who, all); err != nil {
			return len(all), err
		}
	}
	now := make(map[updateKey]*source, len(may))
	for one, o := range may {
		now[newUpdateKey(o, one.URI)] = &source{server: o.Server, uri: one.URI}
	}
	s.updates.setFollowed(f, now) // before subscribing, so that no update is missed
	away := map[uuid.UUID]bool{}
	for one, o := range may {
		if away[one.SkillID] {
			continue
		}
		err := s.subscribeUpstream(ctx, o, one.URI)
		failed, is := errors.AsType[*SkillError](err)
		switch {
		case is && ctx.Err() == nil:
			away[one.SkillID] = !isMissing(failed.Failure)
			s.Logger.DebugContext(ctx, "skill's resource cannot be subscribed to", "skill", o.Skill.Name, "error", err)
		case err != nil:
			return len(all), err
		}
	}
	return len(all), nil
}

// listKey identifies a list of a skill. Its kind is [Resources], which includes templates, or [Prompts].
type listKey struct {
	Skill uuid.UUID `json:"s"`
	Kind  Kind      `json:"k"`
}

// ListChanged handles the announcement of a skill's server that the list of a method changed. It is as cheap as [Service.Updated].
func (s *Service) ListChanged(skillID uuid.UUID, method string) {
	kind := Resources
	if method == Prompts.Method() {
		kind = Prompts
	}
	u := s.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return
	}
	u.lists[listKey{skillID, kind}] = struct{}{}
	u.scheduleFlush()
}

// OffersMayHaveChanged makes followers check whether an operator changed their agent's skills. It does not block.
func (s *Service) OffersMayHaveChanged() {
	u := s.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.followers {
		wakeUp(f.wake)
	}
}

// markLists marks changed lists for all followers.
func (u *updates) markLists(lists []listKey) {
	if len(lists) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.followers {
		for _, key := range lists {
			f.lists[key] = struct{}{}
		}
		wakeUp(f.wake)
	}
}

// changedLists returns the kinds of the agent's lists that changed: lists of open skills in changed, and all lists if the agent's open
// skills are not those of the last check.
func (s *Service) changedLists(ctx context.Context, f *follower, changed map[listKey]struct{}) ([]Kind, error) {
	offers, err := s.Catalog.Offers(ctx, f.who.AgentID, f.who.Principal)
	if err != nil {
		return nil, err
	}
	var seen strings.Builder
	kinds := map[Kind]bool{}
	for i := range offers {
		o := &offers[i]
		if !o.Open {
			continue
		}
		fmt.Fprintf(&seen, "%s %s %d\n", o.Skill.ID, o.Prefix, o.Server.Revision)
		for _, kind := range []Kind{Resources, Prompts} {
			if _, is := changed[listKey{o.Skill.ID, kind}]; is {
				kinds[kind] = true
			}
		}
	}
	if f.looked && f.seen != seen.String() {
		kinds[Resources], kinds[Prompts] = true, true
	}
	f.seen, f.looked = seen.String(), true
	var list []Kind
	for _, kind := range []Kind{Resources, Prompts} {
		if kinds[kind] {
			list = append(list, kind)
		}
	}
	return list, nil
}
