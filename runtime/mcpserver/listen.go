package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// Why a stream of announcements ended, besides those of waits.
var (
	errReplaced = errors.New("the session's client opened another stream")
	errEnded    = errors.New("the conversation has ended")
	errRevoked  = errors.New("the credential is no longer valid")
)

// credentialCheck is after how long an open stream's credential is checked again.
const credentialCheck = 30 * time.Second

// get opens the server's own stream of a session, which carries what no request asked for: that the
// list of tools has changed, or a resource that the session is subscribed to.
func (x *exchange) get() {
	version, session := x.r.Header.Get(headerVersion), x.r.Header.Get(headerSession)
	x.accepts = parseAccept(x.r.Header["Accept"])
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
	case !x.stream:
		http.Error(x.w, "Accept must allow text/event-stream", http.StatusNotAcceptable)
		return
	}
	found, err := x.ofSession(x.r.Context(), session)
	switch {
	case errors.Is(err, agent.ErrNotFound):
		x.unknownSession()
	case err != nil:
		http.Error(x.w, "internal error "+x.logFailure("find conversation", err), http.StatusInternalServerError)
	default:
		x.announceTo(found)
	}
}

// announceTo holds a session's stream open.
func (x *exchange) announceTo(c *catalog.Conversation) {
	id := c.ID
	err := x.beginStream()
	if err == nil && c.ProtocolVersion == latestLegacy {
		// An event of no content with an id, which clients of this revision take for progress; without one
		// some give up a session whose stream was closed a few times.
		x.put("id: " + uuid.NewString() + "\ndata:\n\n")
		err = x.flush()
	}
	if err == nil {
		ctx, done := context.WithCancel(x.r.Context())
		defer done()
		err = x.attend(c, &listener{
			session: id, lists: []resource.Kind{resource.Resources, resource.Prompts}, updates: x.Resources.FollowSession(ctx, x.who(c)),
			find: func(ctx context.Context) (*catalog.Conversation, error) {
				return x.Catalog.Conversation(ctx, x.agent.ID, x.principal, id)
			},
		}, "")
	}
	x.Logger.Debug("stream of announcements ended", "agent", x.agent.Name, "error", err)
}

// listen is the stream of clients without sessions: the response to a request, which is answered
// when the stream ends from our side.
func (x *exchange) listen() {
	wants, fault := x.wants()
	switch {
	case fault != nil:
		x.fail(fault)
		return
	case !x.stream:
		http.Error(x.w, "Accept must allow text/event-stream", http.StatusNotAcceptable)
		return
	}
	found, ok := x.conversation()
	if !ok {
		return
	}
	ids, err := x.watchedTasks(x.r.Context(), wants.tasks)
	if err != nil {
		x.internal("find tasks", err)
		return
	}
	resources, err := x.subscribable(x.who(found), wants.resources)
	if err != nil {
		x.internal("subscribe to resources", err)
		return
	}
	client := x.self()
	// The request's body is not kept.
	x.msg = message{id: cloneRaw(x.msg.id), meta: meta{conversation: x.msg.meta.conversation}}
	meta := `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(x.msg.id) + `}`
	err = x.beginStream()
	if err == nil {
		err = x.notify("notifications/subscriptions/acknowledged", meta+`,"notifications":`+agreement(wants, ids, resources))
	}
	if err == nil && (wants.tools || len(ids) > 0 || len(resources) > 0 || len(wants.lists) > 0) {
		ctx, done := context.WithCancel(x.r.Context())
		defer done()
		err = x.attend(found, &listener{
			quiet: !wants.tools, tasks: x.followTasks(ctx, ids),
			lists: wants.lists, updates: x.followResources(ctx, x.who(found), resources, wants.lists),
			told: found.Catalog.Digest(),
			name: x.conversationName,
			find: func(ctx context.Context) (*catalog.Conversation, error) {
				return x.named(ctx, x.conversationName(), client)
			},
		}, meta)
	}
	if x.broken != nil || x.r.Context().Err() != nil {
		x.left(err)
		return
	}
	x.reply([]byte(`{"resultType":"complete",` + meta + `}`))
}

// wanted are the notifications that a client asks for.
type wanted struct {
	tools     bool            // that the list of its tools changed
	tasks     []string        // how these tasks stand
	resources []string        // that these resources changed
	lists     []resource.Kind // that these lists did
}

// wants reads which notifications a client asks for.
func (x *exchange) wants() (wanted, *jsonrpc.Error) {
	raw := x.msg.wanted
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
		return want, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/notifications: missing"}
	case raw[0] != '{' || json.Unmarshal(raw, &asked) != nil:
		return want, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/notifications: want an object"}
	case asked.Tools != nil && json.Unmarshal(asked.Tools, &want.tools) != nil:
		return want, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/notifications/toolsListChanged: want true or false"}
	}
	if can, _ := x.able(nil); asked.Tasks != nil && !can.tasks {
		return want, needsTasks()
	}
	for _, list := range []struct {
		name string
		raw  json.RawMessage
		kind resource.Kind
	}{{"resourcesListChanged", asked.Lists, resource.Resources}, {"promptsListChanged", asked.Prompts, resource.Prompts}} {
		var yes bool
		if list.raw != nil && json.Unmarshal(list.raw, &yes) != nil {
			return want, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/notifications/" + list.name + ": want true or false"}
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

// agreement is what of the wanted notifications will be sent.
func agreement(wants wanted, tasks []uuid.UUID, resources []resource.Subscription) string {
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

// followTasks tells of tasks until ctx ends. Nil: there are none.
func (x *exchange) followTasks(ctx context.Context, ids []uuid.UUID) <-chan [][]byte {
	if len(ids) == 0 {
		return nil
	}
	news := make(chan [][]byte)
	for _, id := range ids {
		go x.followTask(ctx, id, news)
	}
	return news
}

// attend announces changes until the stream ends, and returns why it did. Nobody else writes to it.
func (x *exchange) attend(c *catalog.Conversation, l *listener, params string) error {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	l.agentID, l.principal = x.agent.ID, x.principal
	l.seen, l.cancel, l.wake = viewOf(c), cancel, make(chan struct{}, 1)
	if l.quiet {
		l.told = l.seen.digest
	}
	x.watch.add(l)
	defer x.watch.remove(l)
	life := time.NewTicker(x.KeepAlive)
	defer life.Stop()
	for checked := x.Now(); ; {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
			if !l.quiet {
				err = x.notify("notifications/tools/list_changed", params)
			}
		case task := <-l.tasks:
			err = x.notify("notifications/tasks", params+",", task...)
		case change := <-l.updates:
			err = x.tellChange(change, l.lists, params)
		case <-life.C:
			if now := x.Now(); now.Sub(checked) >= credentialCheck {
				if x.revoked() {
					return errRevoked
				}
				checked = now
			}
			err = x.comment()
		}
		if err != nil {
			return err
		}
	}
}

// notify sends a notification; params, and the pieces that follow it, are the inside of its parameters, "": it has none.
func (x *exchange) notify(method, params string, more ...[]byte) error {
	head := `{"jsonrpc":"2.0","method":"` + method + `"`
	if params == "" {
		return x.event([]byte(head + "}"))
	}
	pieces := append([][]byte{[]byte(head + `,"params":{` + params)}, more...)
	return x.event(append(pieces, []byte("}}"))...)
}
