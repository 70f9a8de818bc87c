package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// discoverTTL is how long a client may use what server/discover told it.
const discoverTTL = time.Hour

// initialize starts a conversation: a session of the legacy era.
func (x *exchange) initialize() {
	version := latestLegacy
	if slices.Contains(legacyVersions(), x.msg.version) {
		version = x.msg.version
	}
	started, err := x.Catalog.StartConversation(x.r.Context(), x.agent, x.principal, version, x.client(x.msg.clientInfo, x.msg.capabilities))
	if err != nil {
		x.internal("start conversation", err)
		return
	}
	// The client has seen no list yet; what it will see first is no change of this one.
	x.watch.listed(started.ID, started.Catalog.Digest())
	x.w.Header().Set(headerSession, started.ID.String())
	x.reply(marshal(&mcp.InitializeResult{
		ProtocolVersion: version,
		Capabilities:    capabilities(false),
		ServerInfo:      &mcp.Implementation{Name: serverName, Version: x.Version},
		Instructions:    introduction(started.Problems),
	}))
}

// discover tells a client of the modern era what there is.
func (x *exchange) discover() {
	found := &mcp.DiscoverResult{
		Meta:              mcp.Meta{mcp.MetaKeyServerInfo: json.RawMessage(x.info)},
		Cacheable:         mcp.Cacheable{TTLMs: int(discoverTTL.Milliseconds()), CacheScope: "private"},
		SupportedVersions: supportedVersions(),
		Capabilities:      capabilities(true),
		Instructions:      introduction(nil),
	}
	found.ResultType = "complete"
	x.reply(marshal(found))
}

func capabilities(modern bool) *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{
		Tools:     &mcp.ToolCapabilities{ListChanged: true},
		Logging:   &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated, and in use
		Resources: &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true}, Completions: &mcp.CompletionCapabilities{},
	}
	if modern {
		c.Extensions = map[string]any{tasksExtension: struct{}{}}
	}
	return c
}

// setLevel is logging/setLevel: what the session wants to hear from skills' servers while they work on its calls.
func (x *exchange) setLevel() {
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	if !slices.Contains(logLevels(), x.msg.level) {
		x.fail(wrongLevel("/params/level"))
		return
	}
	if x.r.Header.Get(headerSession) != "" { // elsewhere there is no stream that the messages could take
		if err := x.Catalog.SetLogLevel(x.r.Context(), x.agent.ID, x.principal, conversation.ID, x.msg.level); err != nil {
			x.internal("set log level", err)
			return
		}
	}
	x.reply([]byte("{}"))
}

func wrongLevel(where string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: where + ": want one of " + strings.Join(logLevels(), ", ")}
}

// logLevels are those of RFC 5424, as MCP names them.
func logLevels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

const serverName = "holdpoint"

func serverInfo(version string) []byte {
	return marshal(&mcp.Implementation{Name: serverName, Version: version})
}

// notification takes a message in that wants no answer.
func (x *exchange) notification() {
	session := x.r.Header.Get(headerSession)
	if session == "" || x.modern {
		if x.modern && x.msg.reply {
			http.Error(x.w, "responses are not accepted: in this revision servers send no requests", http.StatusBadRequest)
			return
		}
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	if x.msg.reply {
		x.takeReply()
		return
	}
	if x.msg.method == "notifications/cancelled" && len(x.msg.requestID) > 0 {
		x.cancelled(conversation.ID, string(x.msg.requestID))
	}
	x.w.WriteHeader(http.StatusAccepted)
}

// cancelled lets go of a request, wherever it is held. Its call goes its way.
func (x *exchange) cancelled(conversation uuid.UUID, request string) {
	if len(request) > maxRequestID || x.Drop(conversation, request) || x.Broadcast == nil {
		return
	}
	x.Broadcast(x.r.Context(), conversation, request)
}

// client is what is kept of what a client says of itself.
func (x *exchange) client(info, capabilities []byte) json.RawMessage {
	if info == nil && capabilities == nil {
		return nil
	}
	client := []byte("{")
	for _, part := range []struct {
		name string
		raw  []byte
	}{{`"clientInfo":`, info}, {`"capabilities":`, capabilities}} {
		if part.raw == nil || !storable(part.raw) {
			continue
		}
		if len(client) > 1 {
			client = append(client, ',')
		}
		client = append(append(client, part.name...), part.raw...)
	}
	return append(client, '}')
}

// hugeNumber is one that PostgreSQL's jsonb may not hold.
var hugeNumber = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{4}`)

// storable reports whether hostile JSON may be kept: it is small, flat and has no NUL and no number beyond measure.
func storable(raw []byte) bool {
	if len(raw) > maxClientInfo || bytes.Contains(raw, []byte(`\u0000`)) || hugeNumber.Match(raw) {
		return false
	}
	depth, deepest := 0, 0
	for _, c := range raw { // brackets in strings count too: it is only a bound
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest <= maxClientDepth
}
