package resource

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// listKey is a list of a skill. Its kind is [Resources], for templates too, or [Prompts].
type listKey struct {
	Skill uuid.UUID `json:"s"`
	Kind  Kind      `json:"k"`
}

// ListChanged takes in that a skill's server said that what a method lists changed. It costs as little as [Service.Updated].
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
	u.flushSoon()
}

// OffersMayHaveChanged has clients told of other lists where an operator gave their agent other skills. It costs its caller nothing.
func (s *Service) OffersMayHaveChanged() {
	u := s.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.followers {
		signal(f.wake)
	}
}

// relisted notes for everybody whose skills' lists changed.
func (u *updates) relisted(lists []listKey) {
	if len(lists) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.followers {
		for _, key := range lists {
			f.lists[key] = struct{}{}
		}
		signal(f.wake)
	}
}

// relists are the lists of an agent that changed: those of open skills in changed, and all where the agent's open skills are others
// than before.
func (s *Service) relists(ctx context.Context, f *follower, changed map[listKey]struct{}) ([]Kind, error) {
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
