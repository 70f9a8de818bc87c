package resource

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// Change is what a client is told.
type Change struct {
	Updated []string // URIs of resources that it is subscribed to
	Lists   []Kind   // [Resources], which stands for templates too, and [Prompts]
}

// follower is a client's open stream on which it is told of resources.
type follower struct {
	who     Who
	session bool           // its subscriptions are stored
	fixed   []Subscription // else they are these
	again   chan struct{}  // holds one: look at the subscriptions again
	wake    chan struct{}  // holds one: there is something to tell

	keys    map[updateKey]struct{} // updates.mu
	pending map[updateKey]string   // URIs. updates.mu
	lists   map[listKey]struct{}   // updates.mu

	// seen are the agent's open skills as of the last look, if there was one. They are tell's.
	seen   string
	looked bool
}

// FollowSession tells of changes of the resources that a session is subscribed to, as it subscribes and unsubscribes in whatever process,
// until ctx ends, and of changes of the agent's lists. Several changes may be told as one.
func (s *Service) FollowSession(ctx context.Context, who Who) <-chan Change {
	return s.follow(ctx, &follower{who: who, session: true})
}

// Follow tells of changes of what [Service.Subscribable] returned, and of the agent's lists.
func (s *Service) Follow(ctx context.Context, who Who, subscriptions []Subscription) <-chan Change {
	return s.follow(ctx, &follower{who: who, fixed: subscriptions})
}

func (s *Service) follow(ctx context.Context, f *follower) <-chan Change {
	f.again, f.wake = make(chan struct{}, 1), make(chan struct{}, 1)
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
	u.run(func() {
		defer stop()
		defer cancel()
		defer s.leave(f)
		s.keepSubscribed(ctx, f)
	})
	u.run(func() {
		defer cancel()
		f.tell(ctx, u, changes)
	})
	return changes
}

func (s *Service) leave(f *follower) {
	u := s.updates
	u.mu.Lock()
	delete(u.followers, f)
	u.mu.Unlock()
	u.follow(f, nil)
}

// tell passes on what is pending, not more often than every [Config.Pause].
func (f *follower) tell(ctx context.Context, u *updates, changes chan<- Change) {
	if _, err := u.s.relists(ctx, f, nil); err != nil {
		signal(f.wake) // later then
	}
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		// Two processes may have heard of one change.
		timer := time.NewTimer(u.s.Pause / 2)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		change := u.take(ctx, f)
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

// take is what is pending.
func (u *updates) take(ctx context.Context, f *follower) (c Change) {
	u.mu.Lock()
	for _, uri := range f.pending {
		c.Updated = append(c.Updated, uri)
	}
	clear(f.pending)
	lists := f.lists
	f.lists = map[listKey]struct{}{}
	u.mu.Unlock()
	var err error
	if c.Lists, err = u.s.relists(ctx, f, lists); err != nil && ctx.Err() == nil {
		u.s.Logger.WarnContext(ctx, "looking for changes of lists", "error", err)
		c.Lists = []Kind{Resources, Prompts} // as far as can be known
	}
	return c
}

// keepSubscribed sees to it that servers tell this process of what a client is subscribed to and still may be, on their present
// connections.
func (s *Service) keepSubscribed(ctx context.Context, f *follower) {
	for ctx.Err() == nil {
		wanted, err := s.refresh(ctx, f)
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "keeping subscriptions to resources", "error", err)
		}
		var next <-chan time.Time
		timer := time.NewTimer(s.Renew)
		if wanted > 0 || err != nil { // else a notification tells when there are some
			next = timer.C
		}
		select {
		case <-next:
		case <-f.again:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// refresh looks once, and returns how many subscriptions there are.
func (s *Service) refresh(ctx context.Context, f *follower) (int, error) {
	all := f.fixed
	if f.session {
		var err error
		if all, err = s.subscriptions(ctx, f.who.Conversation); err != nil {
			return 0, err
		}
	}
	var may map[Subscription]*catalog.Offer
	if len(all) > 0 {
		var err error
		if may, err = s.allowed(ctx, f.who, all); err != nil {
			return len(all), err
		}
	}
	now := make(map[updateKey]*source, len(may))
	for one, o := range may {
		now[updateKeyOf(o, one.URI)] = &source{server: o.Server, uri: one.URI}
	}
	s.updates.follow(f, now) // first: what comes from now on counts
	away := map[uuid.UUID]bool{}
	for one, o := range may {
		if away[one.SkillID] {
			continue
		}
		err := s.upstream(ctx, o, one.URI)
		failed, is := errors.AsType[*SkillError](err)
		switch {
		case is && ctx.Err() == nil:
			away[one.SkillID] = !lacks(failed.Failure)
			s.Logger.DebugContext(ctx, "skill's resource cannot be subscribed to", "skill", o.Skill.Name, "error", err)
		case err != nil:
			return len(all), err
		}
	}
	return len(all), nil
}
