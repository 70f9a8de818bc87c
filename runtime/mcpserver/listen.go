package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// Why a stream of notifications ended, besides the reasons of waits.
var (
	errReplaced = errors.New("the session's client opened another stream")
	errEnded    = errors.New("the conversation has ended")
	errRevoked  = errors.New("the credential is no longer valid")
)

// credentialCheck is the interval at which an open stream's credential is checked.
const credentialCheck = 30 * time.Second

// subscriptionStream is a stream of notifications that no request asked for.
type subscriptionStream struct{ *exchange }

// serveSessionStream serves the stream of a session for notifications that belong to no request: changes of lists and of
// subscribed resources.
func (x *subscriptionStream) serveSessionStream() {
	version, session := x.r.Header.Get(wire.HeaderVersion), x.r.Header.Get(wire.HeaderSession)
	x.Accepts = wire.ParseAccept(x.r.Header["Accept"])
	switch {
	case x.r.Method != http.MethodGet || version == modernVersion || version == "" && session == "":
		x.w.Header().Set("Allow", "POST, DELETE")
		http.Error(x.w, "there is no stream without a session; send requests by POST", http.StatusMethodNotAllowed)
		return
	case version != "" && !slices.Contains(legacyVersions(), version):
		http.Error(x.w, "unsupported protocol version", http.StatusBadRequest)
		return
	case session == "":
		x.sessionMissing()
		return
	case !x.Stream:
		http.Error(x.w, "Accept must allow text/event-stream", http.StatusNotAcceptable)
		return
	}
	c, err := x.sessionConversation(x.r.Context(), session)
	switch {
	case errors.Is(err, agent.ErrNotFound):
		x.unknownSession()
		return
	case err != nil:
		x.failPlain("find conversation", err)
		return
	}
	err = x.BeginStream()
	if err == nil && c.ProtocolVersion == latestLegacy {
		// An event of no content with an id, which clients of this revision take for progress; without one
		// some give up a session after its stream was closed a few times.
		err = x.WriteLines("id: " + uuid.NewString() + "\ndata:\n\n")
	}
	if err == nil {
		ctx, done := context.WithCancel(x.r.Context())
		defer done()
		err = x.writeChanges(c, &listener{
			session: c.ID, lists: []resource.Kind{resource.Resources, resource.Prompts}, updates: x.Resources.FollowSession(ctx, x.resourceViewer(c)),
			find: func(ctx context.Context) (*catalog.Conversation, error) {
				return x.Catalog.Conversation(ctx, x.agent.ID, x.principal, c.ID)
			},
		}, "")
	}
	x.Logger.Debug("stream of notifications ended", "agent", x.agent.Name, "error", err)
}

// serveListen serves the stream of clients without sessions: the response to a request, which is answered when the server ends
// the stream.
func (x *subscriptionStream) serveListen() {
	wants, fault := x.readWanted()
	switch {
	case fault != nil:
		x.fail(fault)
		return
	case !x.Stream:
		http.Error(x.w, "Accept must allow text/event-stream", http.StatusNotAcceptable)
		return
	}
	found, ok := x.findConversation()
	if !ok {
		return
	}
	ids, err := (&taskRequest{x.exchange}).watchedTasks(x.r.Context(), wants.tasks)
	if err != nil {
		x.failInternal("find tasks", err)
		return
	}
	resources, err := x.subscribeAll(x.resourceViewer(found), wants.resources)
	if err != nil {
		x.failInternal("subscribe to resources", err)
		return
	}
	client := wire.DescribeClient(x.msg.Meta.ClientInfo, x.msg.Meta.Capabilities)
	// The request's body is not kept.
	x.msg = wire.Message{ID: bytes.Clone(x.msg.ID), Meta: wire.Meta{Conversation: x.msg.Meta.Conversation}}
	meta := `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(x.msg.ID) + `}`
	err = x.BeginStream()
	if err == nil {
		err = x.sendNotification("notifications/subscriptions/acknowledged", meta+`,"notifications":`+agreedNotifications(wants, ids, resources))
	}
	if err == nil && (wants.tools || len(ids) > 0 || len(resources) > 0 || len(wants.lists) > 0) {
		ctx, done := context.WithCancel(x.r.Context())
		defer done()
		tasks := make(chan task)
		for _, id := range ids {
			go (&taskRequest{x.exchange}).followTask(ctx, id, tasks)
		}
		var updates <-chan resource.Change
		if len(resources) > 0 || len(wants.lists) > 0 {
			updates = x.Resources.Follow(ctx, x.resourceViewer(found), resources)
		}
		err = x.writeChanges(found, &listener{
			quiet: !wants.tools, tasks: tasks, lists: wants.lists, updates: updates, told: found.Catalog.Digest(),
			name: x.conversationName,
			find: func(ctx context.Context) (*catalog.Conversation, error) {
				return x.namedConversation(ctx, x.conversationName(), client)
			},
		}, meta)
	}
	if x.Err() != nil || x.r.Context().Err() != nil {
		x.noteClientLeft(err)
		return
	}
	x.reply([]byte(`{"resultType":"complete",` + meta + `}`))
}

// wanted are the notifications that a client subscribes to.
type wanted struct {
	tools     bool            // that the list of its tools changed
	tasks     []string        // how these tasks stand
	resources []string        // that these resources changed
	lists     []resource.Kind // that these lists did
}

// readWanted reads the notifications that a client subscribes to.
func (x *subscriptionStream) readWanted() (wanted, *jsonrpc.Error) {
	raw := x.msg.Wanted
	var asked struct {
		Tools     json.RawMessage `json:"toolsListChanged"`
		Tasks     json.RawMessage `json:"taskIds"`
		Resources json.RawMessage `json:"resourceSubscriptions"`
		Lists     json.RawMessage `json:"resourcesListChanged"`
		Prompts   json.RawMessage `json:"promptsListChanged"`
	}
	var want wanted
	switch {
	case raw == nil:
		return want, wire.InvalidParams("/params/notifications: missing")
	case raw[0] != '{' || json.Unmarshal(raw, &asked) != nil:
		return want, wire.InvalidParams("/params/notifications: must be an object")
	case asked.Tools != nil && json.Unmarshal(asked.Tools, &want.tools) != nil:
		return want, wire.InvalidParams("/params/notifications/toolsListChanged: must be true or false")
	}
	if can, _ := x.readAbilities(nil); asked.Tasks != nil && !can.Tasks {
		return want, needsTasks()
	}
	for _, list := range []struct {
		name string
		raw  json.RawMessage
		kind resource.Kind
	}{{"resourcesListChanged", asked.Lists, resource.Resources}, {"promptsListChanged", asked.Prompts, resource.Prompts}} {
		var yes bool
		if list.raw != nil && json.Unmarshal(list.raw, &yes) != nil {
			return want, wire.InvalidParams("/params/notifications/" + list.name + ": must be true or false")
		}
		if yes {
			want.lists = append(want.lists, list.kind)
		}
	}
	var fault *jsonrpc.Error
	if want.resources, fault = wantedResources(asked.Resources); fault != nil {
		return want, fault
	}
	want.tasks, fault = taskIDs(asked.Tasks)
	return want, fault
}

// agreedNotifications returns the subset of the wanted notifications that the stream will send.
func agreedNotifications(wants wanted, tasks []uuid.UUID, resources []resource.Subscription) string {
	agreed := map[string]any{}
	if wants.tools {
		agreed["toolsListChanged"] = true
	}
	for _, kind := range wants.lists {
		agreed[kind.Member()+"ListChanged"] = true
	}
	if len(tasks) > 0 {
		agreed["taskIds"] = tasks
	}
	if len(resources) > 0 {
		uris := make([]string, len(resources))
		for i := range resources {
			uris[i] = resources[i].URI
		}
		agreed["resourceSubscriptions"] = uris
	}
	return string(marshal(agreed))
}

// writeChanges sends notifications until the stream ends, and returns why it ended. It is the stream's only writer.
func (x *subscriptionStream) writeChanges(c *catalog.Conversation, l *listener, params string) error {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	l.agentID, l.principal = x.agent.ID, x.principal
	l.seen, l.cancel, l.wake = viewOf(c), cancel, make(chan struct{}, 1)
	if l.quiet {
		l.told = l.seen.digest
	}
	x.watch.addListener(l)
	defer x.watch.removeListener(l)
	life := time.NewTicker(x.KeepAlive)
	defer life.Stop()
	for checked := x.Now(); ; {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
			if !l.quiet {
				err = x.sendNotification("notifications/tools/list_changed", params)
			}
		case task := <-l.tasks:
			err = x.sendNotification("notifications/tasks", addToMeta(params, task.meta)+",", task.members...)
		case change := <-l.updates:
			err = x.sendChange(change, l.lists, params)
		case <-life.C:
			if now := x.Now(); now.Sub(checked) >= credentialCheck {
				if x.isRevoked() {
					return errRevoked
				}
				checked = now
			}
			err = x.WriteKeepalive()
		}
		if err != nil {
			return err
		}
	}
}

// addToMeta adds to params, which is a _meta alone, the inside of another one.
func addToMeta(params string, meta []byte) string {
	if meta == nil {
		return params
	}
	return strings.TrimSuffix(params, "}") + "," + string(meta) + "}"
}

// sendNotification sends a notification. Params, and the pieces after it, are the inside of its parameters; "": it has none.
func (x *subscriptionStream) sendNotification(method, params string, more ...[]byte) error {
	head := `{"jsonrpc":"2.0","method":"` + method + `"`
	if params == "" {
		return x.WriteEvent([]byte(head + "}"))
	}
	pieces := append([][]byte{[]byte(head + `,"params":{` + params)}, more...)
	return x.WriteEvent(append(pieces, []byte("}}"))...)
}

// changeSubscription serves resources/subscribe and resources/unsubscribe, which only sessions have. Other clients use
// subscriptions/listen.
func (x *resourceRequest) changeSubscription(change func(context.Context, resource.Who, string) error) {
	if x.r.Header.Get(wire.HeaderSession) == "" {
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeMethodNotFound, Message: x.msg.Method + " takes a session, whose stream brings the updates; start one with initialize",
		})
		return
	}
	if !uriLike(x.msg.URI) {
		x.fail(badURI("/params/uri"))
		return
	}
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	err := change(x.r.Context(), x.resourceViewer(conversation), x.msg.URI)
	switch {
	case errors.Is(err, resource.ErrTooMany):
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("a session has %d subscriptions at most", resource.MaxSubscriptions),
			Data: json.RawMessage(`{"code":"` + codeTooMany + `"}`),
		})
	case err != nil:
		x.answerRefusal(err)
	default:
		x.reply([]byte("{}"))
	}
}

// codeTooMany is the data.code of the error for one subscription too many.
const codeTooMany = "too_many_subscriptions"

func badURI(field string) *jsonrpc.Error {
	return wire.InvalidParams(field + ": must be a URI of 1 to 8192 bytes without control characters")
}

// sendChange notifies a client of changed resources and lists. Params are common to all notifications of its stream.
func (x *subscriptionStream) sendChange(c resource.Change, lists []resource.Kind, params string) error {
	for _, kind := range c.Lists {
		if !slices.Contains(lists, kind) {
			continue
		}
		if err := x.sendNotification("notifications/"+kind.Member()+"/list_changed", params); err != nil {
			return err
		}
	}
	for _, uri := range c.Updated {
		about := `"uri":` + string(marshal(uri))
		if params != "" {
			about = params + "," + about
		}
		if err := x.sendNotification("notifications/resources/updated", about); err != nil {
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
		return nil, wire.InvalidParams(field + ": must be a list of URIs")
	}
	if len(uris) > resource.MaxSubscriptions {
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: must be at most %d URIs", field, resource.MaxSubscriptions),
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

// maxSubscribing limits the concurrent subscriptions of one stream.
const maxSubscribing = 16

// subscribeAll subscribes to resources and returns the accepted ones. The protocol cannot tell the client why others are
// missing.
func (x *subscriptionStream) subscribeAll(who resource.Who, uris []string) ([]resource.Subscription, error) {
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
