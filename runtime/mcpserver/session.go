package mcpserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// discoverTTL is how long a client may cache the result of server/discover.
const discoverTTL = time.Hour

// sessionRequest is a request or notification about the protocol itself: the session, its settings, and answers to our requests.
type sessionRequest struct{ *exchange }

// initialize starts a conversation: a session of the legacy era.
func (x *sessionRequest) initialize() {
	version := x.chooseVersion()
	started, err := x.Catalog.StartConversation(x.r.Context(), x.agent, x.principal, version, wire.DescribeClient(x.msg.ClientInfo, x.msg.Capabilities))
	if err != nil {
		x.failInternal("start conversation", err)
		return
	}
	// The client has no list yet: its first list is not a change.
	x.watch.noteListed(started.ID, started.Catalog.Digest())
	x.w.Header().Set(wire.HeaderSession, started.ID.String())
	x.writeWelcome(version, x.capabilities(), modelIntroduction(started.Problems))
}

// chooseVersion returns the revision of a session of the legacy era.
func (x *sessionRequest) chooseVersion() string {
	if slices.Contains(legacyVersions(), x.msg.Version) {
		return x.msg.Version
	}
	return latestLegacy
}

// writeWelcome answers initialize.
func (x *sessionRequest) writeWelcome(version string, can *mcp.ServerCapabilities, instructions string) {
	x.reply(marshal(&mcp.InitializeResult{
		ProtocolVersion: version,
		Capabilities:    can,
		ServerInfo:      &mcp.Implementation{Name: serverName, Version: x.Version},
		Instructions:    instructions,
	}))
}

// writeDiscovery describes the server to a client of the modern era.
func (x *sessionRequest) writeDiscovery(can *mcp.ServerCapabilities, instructions string) {
	found := &mcp.DiscoverResult{
		Meta:              mcp.Meta{mcp.MetaKeyServerInfo: json.RawMessage(x.info)},
		Cacheable:         mcp.Cacheable{TTLMs: int(discoverTTL.Milliseconds()), CacheScope: "private"},
		SupportedVersions: supportedVersions(),
		Capabilities:      can,
		Instructions:      instructions,
	}
	found.ResultType = "complete"
	x.reply(marshal(found))
}

func (x *sessionRequest) capabilities() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{
		Tools:     &mcp.ToolCapabilities{ListChanged: true},
		Logging:   &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated, and in use
		Resources: &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true}, Completions: &mcp.CompletionCapabilities{},
	}
	if x.modern {
		c.Extensions = map[string]any{wire.TasksExtension: struct{}{}}
		if x.Experimental {
			c.Extensions[wire.ApprovalExtension] = struct{}{}
		}
	}
	return c
}

// setLogLevel serves logging/setLevel: the minimum level of log messages of skills' servers in the session.
func (x *sessionRequest) setLogLevel() {
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	if !slices.Contains(logLevels(), x.msg.Level) {
		x.fail(wrongLevel("/params/level"))
		return
	}
	if x.r.Header.Get(wire.HeaderSession) != "" { // other clients have no stream for the messages
		if err := x.Catalog.SetLogLevel(x.r.Context(), x.agent.ID, x.principal, conversation.ID, x.msg.Level); err != nil {
			x.failInternal("set log level", err)
			return
		}
	}
	x.reply([]byte("{}"))
}

func wrongLevel(where string) *jsonrpc.Error {
	return wire.InvalidParams(where + ": must be one of " + strings.Join(logLevels(), ", "))
}

// logLevels are those of RFC 5424, as MCP names them.
func logLevels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

const serverName = "holdpoint"

// serveNotification serves a notification or a response.
func (x *sessionRequest) serveNotification() {
	session := x.r.Header.Get(wire.HeaderSession)
	if session == "" || x.modern {
		if x.modern && x.msg.IsResponse {
			http.Error(x.w, "responses are not accepted: in this revision servers send no requests", http.StatusBadRequest)
			return
		}
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	if x.msg.IsResponse {
		x.takeResponse()
		return
	}
	x.dropCancelled(conversation.ID)
	x.w.WriteHeader(http.StatusAccepted)
}

// dropCancelled ends the response to the request that a notification cancels, in whichever process holds it. The call continues.
func (x *sessionRequest) dropCancelled(session uuid.UUID) {
	id := string(x.msg.RequestID)
	if x.msg.Method != "notifications/cancelled" || id == "" || len(id) > wire.MaxRequestID {
		return
	}
	if !x.Drop(session, id) && x.Broadcast != nil {
		x.Broadcast(x.r.Context(), session, id)
	}
}
