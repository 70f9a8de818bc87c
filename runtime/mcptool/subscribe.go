package mcptool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// updateNotification says that a resource has changed.
const updateNotification = "notifications/resources/updated"

// subscription is one resource of which a skill's server says when it changes.
type subscription struct {
	turn chan struct{} // holds one while the server is asked
	on   *held         // keeper.mu: the peer that was asked; nil: none yet
}

// Subscribe has a skill's server say when a resource changes, to Config.ResourceUpdated, until [Source.Unsubscribe]. All who
// subscribe share one subscription. It may be called again at any time: a server is asked only where its present
// connection does not have the subscription yet, and when another connection had it, the resource counts as changed, since what happened
// in between is not known. Its time is bounded by Limits.List. Errors are *[tool.Failure]; that of a server that did not declare
// subscriptions is a JSONRPCError -32601.
func (s *Source) Subscribe(ctx context.Context, server tool.Server, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	for attempts := 0; ; attempts++ {
		h, failure := s.acquire(ctx, server)
		if failure != nil {
			return without(failure)
		}
		out := h.subscribe(ctx, uri)
		h.release(out.sessionGone || out.renew)
		switch {
		case out.failure == nil:
			return nil
		case attempts > 0 || !out.sessionGone && !out.unsent:
			return without(out.failure)
		}
	}
}

// Unsubscribe ends a subscription. That the server could not be told is of no consequence: what it says then is ignored.
func (s *Source) Unsubscribe(ctx context.Context, server tool.Server, uri string) {
	s.mu.Lock()
	k := s.keepers[keyOf(server)]
	s.mu.Unlock()
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	k.unsubscribe(ctx, uri)
}

// subscribe asks the peer for a subscription, unless it was asked before.
func (h *held) subscribe(ctx context.Context, uri string) outcome {
	k, agreed := h.keeper, h.peer.negotiated()
	ask := &request{method: "resources/subscribe", members: quoted([]byte(`"uri":`), uri), what: "resources/subscribe", limit: maxAnnouncement}
	if !agreed.offers.ResourcesSubscribe {
		return failed(notDeclared(ask))
	}
	sub, err := k.take(ctx, uri)
	if err != nil {
		return failed(tool.Ended(ctx, tool.EffectNone, ask.what))
	}
	defer func() { <-sub.turn }()
	k.mu.Lock()
	before := sub.on
	sub.on = h // from now on what the server says counts
	k.mu.Unlock()
	if before == h {
		return outcome{}
	}
	h.peer.hearUpdates(ctx)
	var out outcome
	if !agreed.modern() {
		out = h.peer.exchange(ctx, ask)
	}
	if out.failure != nil {
		k.forgetSubscription(uri, sub)
	} else if before != nil {
		k.updated(uri)
	}
	return out
}

// take waits until nobody else asks the server about a resource.
func (k *keeper) take(ctx context.Context, uri string) (*subscription, error) {
	for {
		k.mu.Lock()
		sub := k.subscriptions[uri]
		if sub == nil {
			if k.subscriptions == nil {
				k.subscriptions = map[string]*subscription{}
			}
			sub = &subscription{turn: make(chan struct{}, 1)}
			k.subscriptions[uri] = sub
		}
		k.mu.Unlock()
		select {
		case sub.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		k.mu.Lock()
		same := k.subscriptions[uri] == sub
		k.mu.Unlock()
		if same {
			return sub, nil
		}
		<-sub.turn // it ended meanwhile
	}
}

// forgetSubscription ends a subscription that the caller has taken.
func (k *keeper) forgetSubscription(uri string, sub *subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sub.on = nil
	delete(k.subscriptions, uri)
}

// unsubscribe ends a subscription, and tells the server where it still has it.
func (k *keeper) unsubscribe(ctx context.Context, uri string) {
	k.mu.Lock()
	known := k.subscriptions[uri] != nil
	k.mu.Unlock()
	if !known {
		return
	}
	sub, err := k.take(ctx, uri)
	if err != nil {
		return
	}
	defer func() { <-sub.turn }()
	k.mu.Lock()
	h := sub.on
	if h != nil && h == k.current {
		h.users++
	} else {
		h = nil
	}
	k.mu.Unlock()
	k.forgetSubscription(uri, sub)
	if h == nil {
		return
	}
	var out outcome
	if h.peer.negotiated().modern() {
		h.peer.hearUpdates(ctx)
	} else {
		out = h.peer.exchange(ctx, &request{
			method: "resources/unsubscribe", members: quoted([]byte(`"uri":`), uri), what: "resources/unsubscribe", limit: maxAnnouncement,
		})
	}
	h.release(out.sessionGone || out.renew)
}

// subscribed are the resources that the server is to tell of.
func (k *keeper) subscribed() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var uris []string
	for uri, sub := range k.subscriptions {
		if sub.on != nil {
			uris = append(uris, uri)
		}
	}
	return uris
}

// heardUpdate passes on that a resource has changed, where somebody asked for it.
func (k *keeper) heardUpdate(params json.RawMessage) {
	uri, err := uriOf(params)
	if err != nil {
		return
	}
	k.mu.Lock()
	sub := k.subscriptions[uri]
	wanted := sub != nil && sub.on != nil
	k.mu.Unlock()
	if wanted {
		k.updated(uri)
	}
}

func (k *keeper) updated(uri string) {
	if tell := k.source.config.ResourceUpdated; tell != nil {
		key := keyOf(k.server)
		tell(key.skill, key.principal, uri)
	}
}

// relisted passes on that the server announced another list of resources or prompts.
func (k *keeper) relisted(method string) {
	if tell := k.source.config.OffersChanged; tell != nil {
		tell(k.server.SkillID, method)
	}
}

// uriOf reads which resource a notification is about.
func uriOf(params json.RawMessage) (uri string, err error) {
	found := false
	err = eachMember(params, func(name string, value json.RawMessage) error {
		if name != "uri" {
			return nil
		}
		found = true
		return json.Unmarshal(value, &uri)
	})
	if err == nil && !found {
		err = errors.New("it names no resource")
	}
	return uri, err
}
