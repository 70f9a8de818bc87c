package mcptool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// subscription is a resource whose changes a server reports.
type subscription struct {
	turn chan struct{} // holds one while the server is being asked
	on   *heldSession  // keeper.mu: the session that has it; nil: none yet
}

// Subscribe subscribes to a resource until [Source.Unsubscribe]. Changes are reported to Config.ResourceUpdated. All subscribers share one
// subscription. Subscribe may be called again at any time: the server is only asked if its current session does not have the subscription.
// If an earlier session had it, the resource counts as changed, because changes in between are not known. Its time is bounded by
// Limits.List. Errors are *[tool.Failure]; a server that did not declare subscriptions is a JSONRPCError -32601.
func (s *Source) Subscribe(ctx context.Context, server tool.Server, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	for attempts := 0; ; attempts++ {
		h, failure := s.acquireSession(ctx, server)
		if failure != nil {
			return session.WithoutEffect(failure)
		}
		out := h.subscribeTo(ctx, uri)
		h.releaseSession(out.SessionGone || out.Renew)
		switch {
		case out.Failure == nil:
			return nil
		case attempts > 0 || !out.SessionGone && !out.Unsent:
			return session.WithoutEffect(out.Failure)
		}
	}
}

// Unsubscribe ends a subscription. If the server cannot be told, its notifications are ignored.
func (s *Source) Unsubscribe(ctx context.Context, server tool.Server, uri string) {
	s.mu.Lock()
	k := s.keepers[session.KeyOf(server)]
	s.mu.Unlock()
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	k.unsubscribeFrom(ctx, uri)
}

// subscribeTo subscribes in this session, unless it has the subscription.
func (h *heldSession) subscribeTo(ctx context.Context, uri string) session.Outcome {
	k, info := h.keeper, h.session.Info()
	ask := &session.Request{Method: "resources/subscribe", Members: rawjson.AppendString([]byte(`"uri":`), uri), Label: "resources/subscribe", Limit: session.MaxAnnouncement}
	if !info.Capabilities.ResourcesSubscribe {
		return session.Failed(failUndeclared(ask))
	}
	sub, err := k.takeSubscription(ctx, uri)
	if err != nil {
		return session.Failed(tool.Ended(ctx, tool.EffectNone, ask.Label))
	}
	defer func() { <-sub.turn }()
	k.mu.Lock()
	before := sub.on
	sub.on = h // from now on updates count
	k.mu.Unlock()
	if before == h {
		return session.Outcome{}
	}
	h.session.RefreshUpdates(ctx)
	var out session.Outcome
	if !info.IsStateless() {
		out = h.session.Exchange(ctx, ask)
	}
	if out.Failure != nil {
		k.forgetSubscription(uri, sub)
	} else if before != nil {
		k.announceUpdate(uri)
	}
	return out
}

// takeSubscription waits until no other goroutine is asking the server about the resource.
func (k *keeper) takeSubscription(ctx context.Context, uri string) (*subscription, error) {
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
		<-sub.turn // the subscription ended meanwhile
	}
}

// unsubscribeFrom ends a subscription, and tells the server if the current session has it.
func (k *keeper) unsubscribeFrom(ctx context.Context, uri string) {
	k.mu.Lock()
	known := k.subscriptions[uri] != nil
	k.mu.Unlock()
	if !known {
		return
	}
	sub, err := k.takeSubscription(ctx, uri)
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
	var out session.Outcome
	if h.session.Info().IsStateless() {
		h.session.RefreshUpdates(ctx)
	} else {
		out = h.session.Exchange(ctx, &session.Request{
			Method: "resources/unsubscribe", Members: rawjson.AppendString([]byte(`"uri":`), uri), Label: "resources/unsubscribe", Limit: session.MaxAnnouncement,
		})
	}
	h.releaseSession(out.SessionGone || out.Renew)
}

// forgetSubscription ends a subscription that the caller has taken.
func (k *keeper) forgetSubscription(uri string, sub *subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sub.on = nil
	delete(k.subscriptions, uri)
}

// subscribedURIs returns the resources whose changes the server should report.
func (k *keeper) subscribedURIs() []string {
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

// handleUpdate handles a notifications/resources/updated. It ignores resources without a subscription.
func (k *keeper) handleUpdate(params json.RawMessage) {
	uri, err := readURI(params)
	if err != nil {
		return
	}
	k.mu.Lock()
	sub := k.subscriptions[uri]
	wanted := sub != nil && sub.on != nil
	k.mu.Unlock()
	if wanted {
		k.announceUpdate(uri)
	}
}

// readURI returns the resource that a notification names.
func readURI(params json.RawMessage) (uri string, err error) {
	value, err := session.ReadMember(params, "uri")
	switch {
	case err != nil:
		return "", err
	case value == nil:
		return "", errors.New("it names no resource")
	}
	err = json.Unmarshal(value, &uri)
	return uri, err
}

// announceUpdate calls Config.ResourceUpdated.
func (k *keeper) announceUpdate(uri string) {
	if tell := k.source.config.ResourceUpdated; tell != nil {
		key := session.KeyOf(k.server)
		tell(key.Skill, key.Principal, uri)
	}
}
