package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Dial says how to connect to a server.
type Dial struct {
	Server    tool.Server
	Era       Era
	Handshake *Handshake
	Listener  Listener
	// Announces reports whether a server with these capabilities may announce changes that Holdpoint listens for. Its stream of
	// announcements is then kept open.
	Announces func(tool.Capabilities) bool
	Version   string // of the client "holdpoint"
	Logger    *slog.Logger
	Now       func() time.Time
}

// Negotiate lets the SDK negotiate over a transport. If it returns an error it may return a client too, which has to be closed.
func (d Dial) Negotiate(ctx context.Context, transport mcp.Transport) (*mcp.ClientSession, Info, error) {
	var options *mcp.ClientSessionOptions
	if d.Era == EraLegacy {
		options = &mcp.ClientSessionOptions{ProtocolVersion: legacyVersion}
	}
	client, err := newClient(d.Version, d.Server.Transport).Connect(ctx, transport, options)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := newInfo(client, d.Version)
	return client, info, err
}

// newClient returns the SDK's client for the negotiation. In revisions with sessions all callers share one, so it declares all
// capabilities that a caller may have; questions that a caller cannot be asked are refused later. Over stdio it does not declare roots,
// because no server can say which caller a question is for (see Questions.findOperation).
func newClient(version string, transport tool.Transport) *mcp.Client {
	capabilities := &mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		Sampling:    &mcp.SamplingCapabilities{}, //nolint:staticcheck // deprecated by MCP, and in use
	}
	if transport == tool.HTTP {
		capabilities.RootsV2 = &mcp.RootCapabilities{} //nolint:staticcheck // deprecated by MCP, and in use
	}
	return mcp.NewClient(newImplementation(version), &mcp.ClientOptions{
		Capabilities:   capabilities,
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
}

// newInfo reads the result of the negotiation.
func newInfo(session *mcp.ClientSession, version string) (Info, error) {
	result := session.InitializeResult()
	if result == nil {
		return Info{}, errors.New("the session has no initialize result")
	}
	i := Info{Capabilities: readServerCapabilities(result)}
	if info := result.ServerInfo; info != nil {
		i.Server = plain.Line(info.Name, 100) + " " + plain.Line(info.Version, 50)
	}
	if !i.IsStateless() {
		return i, nil
	}
	meta, err := json.Marshal(map[string]any{
		mcp.MetaKeyProtocolVersion: i.Capabilities.ProtocolVersion,
		mcp.MetaKeyClientInfo:      newImplementation(version),
	})
	if err == nil {
		i.meta = meta[1 : len(meta)-1]
	}
	return i, err
}

func readServerCapabilities(result *mcp.InitializeResult) tool.Capabilities {
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

func newImplementation(version string) *mcp.Implementation {
	return &mcp.Implementation{Name: "holdpoint", Version: version}
}

// legacyVersion is the revision that is requested from a server that does not know server/discover.
const legacyVersion = "2025-11-25"

// tasksExtension is the name of the extension for tasks (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// The eras of MCP.
const (
	EraUnknown Era = iota
	EraLegacy      // with sessions: server/discover is not tried
	EraModern      // without sessions: MCP 2026-07-28 and later
)

// Era is the part of a server's revision that is kept between connections.
type Era int

// Handshake observes the SDK while it connects, and reports each step.
type Handshake struct {
	Now  func() time.Time
	Step func(tool.Step) // gets each step when it ends; may be nil

	began  time.Time
	name   string // of the current step; "" if there is none
	failed bool   // a step failed and was reported
}

// BeginStep begins a step, and ends the one before with detail. It does nothing after a failed step: the next attempt of the SDK fails for
// the same reason.
func (h *Handshake) BeginStep(name, detail string) {
	if h.failed {
		return
	}
	h.FinishStep(detail, nil)
	h.name, h.began = name, h.Now()
}

// FinishStep ends the current step, if there is one.
func (h *Handshake) FinishStep(detail string, err error) {
	if h.Step != nil && h.name != "" {
		h.Step(tool.Step{Name: h.name, Detail: detail, Took: h.Now().Sub(h.began), Err: err})
		h.failed = h.failed || err != nil
	}
	h.name = ""
}

// Fail ends the current step, or a first one, with an error. It does nothing after a failed step.
func (h *Handshake) Fail(err error) {
	if h.failed {
		return
	}
	if h.name == "" {
		h.BeginStep("connect", "")
	}
	h.FinishStep("", err)
}

// BeginMethod begins the step of a method that the SDK sends.
func (h *Handshake) BeginMethod(method string) {
	switch method {
	case "server/discover":
		if h.name != "discover" {
			h.BeginStep("discover", "")
		}
	case "initialize":
		h.BeginStep("initialize", "the server speaks a revision before "+tool.StatelessVersion)
	}
}

// FinishNegotiation ends the last step.
func (h *Handshake) FinishNegotiation(i Info) {
	h.FinishStep(fmt.Sprintf("MCP %s, %s", i.Capabilities.ProtocolVersion, i.Server), nil)
}
