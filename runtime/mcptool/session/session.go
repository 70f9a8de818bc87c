package session

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Session is an initialized server: a session over HTTP, or a child process.
type Session interface {
	// Exchange sends a request and waits for its answer, or for the end of ctx.
	Exchange(ctx context.Context, r *Request) Outcome
	Info() Info
	// RefreshUpdates makes sure that updates of the listener's resources arrive: it opens the stream of announcements if there is none.
	// Since 2026-07-28 it opens the stream again, with the resources that are subscribed to now.
	RefreshUpdates(ctx context.Context)
	// IsBroken reports whether the session can answer no more requests.
	IsBroken() bool
	// Close ends the session and frees its resources. Running requests fail. When ctx ends it stops waiting for the server.
	Close(ctx context.Context)
}

// Info is the result of the negotiation with a server.
type Info struct {
	Server       string // the name and version that the server gives itself
	Capabilities tool.Capabilities
	meta         []byte // members of the _meta of every request; nil before MCP 2026-07-28
}

// IsStateless reports whether the server speaks a revision without sessions: MCP 2026-07-28 or later.
func (i Info) IsStateless() bool { return i.Capabilities.Stateless() }

// ErrTooLarge is the cause of a failure to read an event, a line or a body that is larger than its bound.
var ErrTooLarge = errors.New("larger than allowed")

// ErrClosed is the cause of a request that ends because its session is closed.
var ErrClosed = errors.New("the connection to the skill was closed")

// EnvelopeRoom is how many bytes a JSON-RPC answer may have besides its result.
const EnvelopeRoom = 64 << 10

// MaxAnnouncement bounds one event of the stream of announcements, in bytes.
const MaxAnnouncement = 1 << 20

// FirstID is the first id of our own requests in a session. Smaller ids are the SDK's.
const FirstID = 1000

// Key identifies a session. A skill to which each person has a connection of their own has a session for each person.
type Key struct {
	Skill, Principal uuid.UUID
}

// KeyOf returns the key of the session with a server.
func KeyOf(server tool.Server) Key {
	key := Key{Skill: server.SkillID}
	if server.PerUser {
		key.Principal = server.Principal
	}
	return key
}

// Listener gets the notifications that do not belong to one request. Fields that are nil ignore theirs.
type Listener struct {
	ToolsChanged    func()                       // the list of tools changed
	Progress        func(params json.RawMessage) // of a notifications/progress
	ResourceUpdated func(params json.RawMessage) // of a notifications/resources/updated
	SubscribedURIs  func() []string              // the resources whose updates are wanted
	OffersChanged   func(method string)          // the list of resources or prompts changed: "resources/list", "prompts/list"
}

// Handle passes a notification on. It reports false if the listener ignores messages of this kind.
func (l Listener) Handle(m Message) bool {
	switch {
	case m.ID != nil:
		return false
	case m.Method == "notifications/tools/list_changed" && l.ToolsChanged != nil:
		l.ToolsChanged()
	case m.Method == "notifications/progress" && l.Progress != nil:
		l.Progress(m.Params)
	case m.Method == "notifications/resources/list_changed" && l.OffersChanged != nil:
		l.OffersChanged("resources/list")
	case m.Method == "notifications/prompts/list_changed" && l.OffersChanged != nil:
		l.OffersChanged("prompts/list")
	case m.Method == updateNotification && l.ResourceUpdated != nil:
		l.ResourceUpdated(m.Params)
	default:
		return false
	}
	return true
}

// updateNotification says that a resource has changed.
const updateNotification = "notifications/resources/updated"

// LogNotification carries a log message of the server.
const LogNotification = "notifications/message"
