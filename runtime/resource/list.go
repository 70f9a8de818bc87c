package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// Entry is an entry of a list.
type Entry struct {
	Name string          // the client's name for it: a URI, a template, or the exposed name of a prompt
	Raw  json.RawMessage // as its server sent it

	own   string // its server's name for it
	match *regexp.Regexp
	offer *catalog.Offer
}

// List is the list that an agent sees, ordered by skill and then as its server orders it. A URI that an earlier skill lists too is left
// out.
type List struct {
	Entries  []Entry
	Problems []catalog.Problem // skills whose entries are missing
	TTL      time.Duration     // after which it may be out of date
}

// maxSideBySide bounds the skills that are asked at the same time for one list.
const maxSideBySide = 16

// List lists the offers of an agent's open skills. The failure of a skill is a problem in the list, not an error.
func (s *Service) List(ctx context.Context, who Who, kind Kind) (List, error) {
	_, list, err := s.composeList(ctx, who, kind)
	return list, err
}

// composeList returns the list and the agent's skills.
func (s *Service) composeList(ctx context.Context, who Who, kind Kind) ([]catalog.Offer, List, error) {
	offers, err := s.Catalog.Offers(ctx, who.AgentID, who.Principal)
	if err != nil {
		return nil, List{}, err
	}
	listings, errs := make([]*listing, len(offers)), make([]error, len(offers))
	var group sync.WaitGroup
	slots := make(chan struct{}, maxSideBySide)
	for i := range offers {
		if !offers[i].Open || offers[i].Problem != nil {
			continue
		}
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			listings[i], errs[i] = s.cachedList(ctx, &offers[i], kind)
		})
	}
	group.Wait()
	list := List{TTL: defaultTTL}
	for i := range offers {
		list.addSkill(&offers[i], kind, listings[i], errs[i])
	}
	if err := ctx.Err(); err != nil {
		return nil, List{}, fmt.Errorf("%s: %w", kind.Method(), err)
	}
	list.resolveNames(kind)
	return offers, list, nil
}

// addSkill adds the entries, or the problem, of a skill.
func (list *List) addSkill(o *catalog.Offer, kind Kind, l *listing, err error) {
	switch {
	case !o.Open:
	case o.Problem != nil:
		list.Problems = append(list.Problems, *o.Problem)
	case err != nil:
		list.Problems = append(list.Problems, catalog.Problem{
			Skill: o.Skill.Name, Kind: catalog.ProblemInternal, Error: kind.Method() + " could not be sent",
		})
	case l.failure != nil:
		list.Problems = append(list.Problems, catalog.NewFailureProblem(o.Skill.Name, l.failure))
	default:
		list.TTL = min(list.TTL, l.ttl)
		for _, e := range l.entries {
			list.Entries = append(list.Entries, Entry{Name: kind.exposedName(o, e.name), Raw: e.raw, own: e.name, match: e.match, offer: o})
		}
	}
	if len(list.Problems) > 0 {
		list.TTL = min(list.TTL, failedTTL)
	}
}

// resolveNames makes names unique. Of resources with the same URI, the first stays. Prompts follow the rule of tools: a prefixed name wins
// over an unprefixed one, so that no server can displace the prompts of another skill, and of two equal names neither stays.
func (list *List) resolveNames(kind Kind) {
	prefixed, unprefixed := map[string]int{}, map[string]int{}
	for i := range list.Entries {
		if e := &list.Entries[i]; e.offer.Prefix == "" {
			unprefixed[e.Name]++
		} else {
			prefixed[e.Name]++
		}
	}
	kept, seen := list.Entries[:0], map[string]bool{}
	for i := range list.Entries {
		e := list.Entries[i]
		rivals := prefixed[e.Name]
		if e.offer.Prefix == "" {
			rivals += unprefixed[e.Name]
		}
		collides := kind == Prompts && (rivals > 1 || e.offer.Prefix == "" && prefixed[e.Name] > 0)
		switch {
		case collides:
			list.Problems = append(list.Problems, catalog.Problem{
				Skill: e.offer.Skill.Name, Kind: catalog.ProblemCollision,
				Error: fmt.Sprintf("%q: another prompt is named %s too", plain.Line(e.own, maxRecorded), e.Name),
			})
		case !seen[e.Name]:
			seen[e.Name] = true
			kept = append(kept, e)
		}
	}
	list.Entries = kept
}

// findEntry returns the entry of a name.
func (list *List) findEntry(name string) (*Entry, bool) {
	for i := range list.Entries {
		if list.Entries[i].Name == name {
			return &list.Entries[i], true
		}
	}
	return nil, false
}
