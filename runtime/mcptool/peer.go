package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// modernVersion is the first revision without sessions.
const modernVersion = "2026-07-28"

// legacyVersion is what a server that does not know server/discover is asked for.
const legacyVersion = "2025-11-25"

// tasksExtension is the name of the extension for tasks (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// firstID is the first id of our own requests in a session; smaller ones are
// the SDK's.
const firstID = 1000

// peer is an initialized server: a session over HTTP, or a child process.
type peer interface {
	// exchange sends one request and waits for its answer, or for ctx.
	exchange(ctx context.Context, r *request) outcome
	// negotiated says what was agreed on.
	negotiated() negotiated
	// hearUpdates sees to it that what the server says of the listener's resources is heard: those it is subscribed to
	// by requests, or, since 2026-07-28, those that it is listened to for as of now.
	hearUpdates(ctx context.Context)
	// broken reports whether the peer can answer nothing any more.
	broken() bool
	// close ends the session and frees what it holds. Requests still on their
	// way fail. It returns when all is done, or when ctx ends.
	close(ctx context.Context)
}

// listener hears what a server says unasked. Its zero value does not listen.
type listener struct {
	changed    func()                       // the server's tools changed
	progressed func(params json.RawMessage) // a notifications/progress came
	updated    func(params json.RawMessage) // a notifications/resources/updated came
	subscribed func() []string              // the resources whose updates are wanted
	relisted   func(method string)          // what this method lists changed, other than tools
}

// received acts on a notification, if it is one of those that listeners hear.
func (l listener) received(e envelope) bool {
	switch {
	case e.id != nil:
		return false
	case e.method == "notifications/tools/list_changed" && l.changed != nil:
		l.changed()
	case e.method == "notifications/progress" && l.progressed != nil:
		l.progressed(e.params)
	case e.method == "notifications/resources/list_changed" && l.relisted != nil:
		l.relisted("resources/list")
	case e.method == "notifications/prompts/list_changed" && l.relisted != nil:
		l.relisted("prompts/list")
	case e.method == updateNotification && l.updated != nil:
		l.updated(e.params)
	default:
		return false
	}
	return true
}

// logNotification says something to be logged.
const logNotification = "notifications/message"

// negotiated is the result of connecting.
type negotiated struct {
	version string
	server  string // "name version", as the server calls itself
	offers  tool.Capabilities
	meta    []byte // _meta of every request, nil where the revision has none
}

func (n negotiated) modern() bool { return n.version >= modernVersion }

// newNegotiated reads what the SDK's session agreed on.
func newNegotiated(session *mcp.ClientSession, config Config) (negotiated, error) {
	result := session.InitializeResult()
	if result == nil {
		return negotiated{}, errors.New("the session has no initialize result")
	}
	n := negotiated{version: result.ProtocolVersion}
	if info := result.ServerInfo; info != nil {
		n.server = plain(info.Name, 100) + " " + plain(info.Version, 50)
	}
	n.offers = offers(result)
	if !n.modern() {
		return n, nil
	}
	meta, err := json.Marshal(map[string]any{
		mcp.MetaKeyProtocolVersion: n.version,
		mcp.MetaKeyClientInfo:      implementation(config.Version),
	})
	if err == nil {
		n.meta = meta[1 : len(meta)-1]
	}
	return n, err
}

// metaOf is the _meta of a request, nil for none. Since 2026-07-28 each says what can be asked of
// whom it is made for, and that tasks are followed. Which trace it belongs to is said in every revision (SEP-414).
func (n negotiated) metaOf(r *request) []byte {
	e, meta := r.errand, []byte{'{'}
	aboutTask := strings.HasPrefix(r.method, "tasks/") // during which nothing is said
	if n.modern() {
		meta = append(append(meta, n.meta...), `,"`+mcp.MetaKeyClientCapabilities+`":{`...)
		if e != nil && len(e.may.members) > 0 {
			meta = append(append(meta, e.may.members...), ',')
		}
		meta = append(meta, `"extensions":{"`+tasksExtension+`":{}}}`...)
		if e.wantsLogs() && !aboutTask {
			meta = appendMember(meta, logLevelKey, quoted(nil, e.caller.LogLevel))
		}
	}
	if e != nil && e.caller.Progress != nil && !aboutTask {
		meta = appendMember(meta, "progressToken", quoted(nil, e.token))
	}
	for _, member := range [...][2]string{{telemetry.Traceparent, r.trace.Traceparent}, {telemetry.Tracestate, r.trace.Tracestate}} {
		if member[1] != "" {
			meta = appendMember(meta, member[0], quoted(nil, member[1]))
		}
	}
	if e != nil && e.caller.Depth > 0 && !aboutTask {
		meta = appendMember(meta, tool.MetaDepth, strconv.AppendInt(nil, int64(e.caller.Depth), 10))
	}
	if len(meta) == 1 {
		return nil
	}
	return append(meta, '}')
}

// logLevelKey asks, in a _meta, for log messages (2026-07-28).
const logLevelKey = "io.modelcontextprotocol/logLevel"

// offers reads what a server declared.
func offers(result *mcp.InitializeResult) tool.Capabilities {
	c := tool.Capabilities{ProtocolVersion: result.ProtocolVersion}
	declared := result.Capabilities
	if declared == nil {
		return c
	}
	if tools := declared.Tools; tools != nil {
		c.Tools, c.ToolsListChanged = true, tools.ListChanged
	}
	if resources := declared.Resources; resources != nil {
		c.Resources, c.ResourcesListChanged, c.ResourcesSubscribe = true, resources.ListChanged, resources.Subscribe
	}
	if prompts := declared.Prompts; prompts != nil {
		c.Prompts, c.PromptsListChanged = true, prompts.ListChanged
	}
	c.Completions = declared.Completions != nil
	c.Logging = declared.Logging != nil //nolint:staticcheck // deprecated by MCP, and in use
	_, c.Tasks = declared.Extensions[tasksExtension]
	return c
}

// newClient makes the SDK's client that negotiates. To servers of sessions it advertises what any
// caller might be asked, since all share the session: each question is then refused or not by whom
// it is about. Over stdio no server can say whom it asks for roots, see asked.attribute.
func newClient(config Config, transport tool.Transport) *mcp.Client {
	capabilities := &mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		Sampling:    &mcp.SamplingCapabilities{}, //nolint:staticcheck // deprecated by MCP, and in use
	}
	if transport == tool.HTTP {
		capabilities.RootsV2 = &mcp.RootCapabilities{} //nolint:staticcheck // as above
	}
	return mcp.NewClient(implementation(config.Version), &mcp.ClientOptions{
		Capabilities:   capabilities,
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
}

func implementation(version string) *mcp.Implementation {
	return &mcp.Implementation{Name: "holdpoint", Version: version}
}

// era is what is remembered of a server's revision between connections.
type era int

const (
	eraUnknown era = iota
	eraLegacy      // do not ask server/discover again
	eraModern
)

func (e era) options() *mcp.ClientSessionOptions {
	if e == eraLegacy {
		return &mcp.ClientSessionOptions{ProtocolVersion: legacyVersion}
	}
	return nil
}

// handshake watches the SDK connect, and names each step as it is taken.
type handshake struct {
	now  func() time.Time
	step func(tool.Step) // nil: nobody asks

	began time.Time
	name  string // of the step under way, "" if none
	told  bool   // a step failed, and step was told
}

// begin starts a step; a step that was under way is done, with detail. After one that failed there is none: what the SDK
// tries then fails for the same reason.
func (h *handshake) begin(name, detail string) {
	if h.told {
		return
	}
	h.finish(detail, nil)
	h.name, h.began = name, h.now()
}

func (h *handshake) finish(detail string, err error) {
	if h.step != nil && h.name != "" {
		h.step(tool.Step{Name: h.name, Detail: detail, Took: h.now().Sub(h.began), Err: err})
		h.told = h.told || err != nil
	}
	h.name = ""
}

// fail ends the step under way, or the first, with an error, once.
func (h *handshake) fail(err error) {
	if h.told {
		return
	}
	if h.name == "" {
		h.begin("connect", "")
	}
	h.finish("", err)
}

// beginMethod starts the step of a method that the SDK sends.
func (h *handshake) beginMethod(method string) {
	switch method {
	case "server/discover":
		if h.name != "discover" {
			h.begin("discover", "")
		}
	case "initialize":
		h.begin("initialize", "the server speaks a revision before "+modernVersion)
	}
}

// finishNegotiation ends the last step.
func (h *handshake) finishNegotiation(n negotiated) {
	h.finish(fmt.Sprintf("MCP %s, %s", n.version, n.server), nil)
}
