package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/resource"
)

// subscribe is resources/subscribe and resources/unsubscribe, which only sessions have: others say with
// subscriptions/listen what they want to hear.
func (x *exchange) subscribe(change func(context.Context, resource.Who, string) error) {
	if x.r.Header.Get(headerSession) == "" {
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeMethodNotFound, Message: x.msg.method + " takes a session, whose stream brings the updates; start one with initialize",
		})
		return
	}
	if !uriLike(x.msg.uri) {
		x.fail(badURI("/params/uri"))
		return
	}
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	err := change(x.r.Context(), x.who(conversation), x.msg.uri)
	switch {
	case errors.Is(err, resource.ErrTooMany):
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("a session has %d subscriptions at most", resource.MaxSubscriptions),
			Data: json.RawMessage(`{"code":"` + codeTooMany + `"}`),
		})
	case err != nil:
		x.refuseAsked(err)
	default:
		x.reply([]byte("{}"))
	}
}

// codeTooMany is that of the error about one subscription too many, in data.code.
const codeTooMany = "too_many_subscriptions"

func badURI(field string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: field + ": want a URI of 1 to 8192 bytes without control characters",
	}
}

// tellChange tells a client that resources and lists changed. params is what every notification of its stream has.
func (x *exchange) tellChange(c resource.Change, lists []resource.Kind, params string) error {
	for _, kind := range c.Lists {
		if !slices.Contains(lists, kind) {
			continue
		}
		if err := x.notify("notifications/"+kind.Member()+"/list_changed", params); err != nil {
			return err
		}
	}
	for _, uri := range c.Updated {
		about := `"uri":` + string(marshal(uri))
		if params != "" {
			about = params + "," + about
		}
		if err := x.notify("notifications/resources/updated", about); err != nil {
			return err
		}
	}
	return nil
}

// wantedResources reads the URIs of a subscriptions/listen.
func wantedResources(raw json.RawMessage) ([]string, *jsonrpc.Error) {
	const field = "/params/notifications/resourceSubscriptions"
	var uris []string
	if raw != nil && json.Unmarshal(raw, &uris) != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: field + ": want a list of URIs"}
	}
	if len(uris) > resource.MaxSubscriptions {
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: want %d URIs at most", field, resource.MaxSubscriptions),
			Data: json.RawMessage(`{"code":"` + codeTooMany + `"}`),
		}
	}
	for i, uri := range uris {
		if !uriLike(uri) {
			return nil, badURI(fmt.Sprintf("%s/%d", field, i))
		}
	}
	slices.Sort(uris)
	return slices.Compact(uris), nil
}

// maxSubscribing is how many resources are subscribed to at once for one stream.
const maxSubscribing = 16

// subscribable subscribes to resources, and returns those that can be: why another cannot there is no way to say.
func (x *exchange) subscribable(who resource.Who, uris []string) ([]resource.Subscription, error) {
	found, errs := make([]resource.Subscription, len(uris)), make([]error, len(uris))
	slots := make(chan struct{}, maxSubscribing)
	var all sync.WaitGroup
	for i, uri := range uris {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			found[i], errs[i] = x.Resources.Subscribable(x.r.Context(), who, uri)
		})
	}
	all.Wait()
	agreed := found[:0]
	for i, err := range errs {
		_, isSkill := errors.AsType[*resource.SkillError](err)
		switch {
		case err == nil:
			agreed = append(agreed, found[i])
		case !isSkill && !errors.Is(err, resource.ErrDenied):
			return nil, err
		}
	}
	return agreed, nil
}

// followResources tells of resources and lists until ctx ends. Nil: there are none.
func (x *exchange) followResources(ctx context.Context, who resource.Who, agreed []resource.Subscription, lists []resource.Kind) <-chan resource.Change {
	if len(agreed) == 0 && len(lists) == 0 {
		return nil
	}
	return x.Resources.Follow(ctx, who, agreed)
}
