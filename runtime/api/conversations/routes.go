// Package conversations has the API's operations on conversations: reading, following and, for their owners, speaking in them.
package conversations

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

// maxMessageBody is the greatest body with a message, in bytes, however the message is escaped.
const maxMessageBody = 6*converse.MaxMessageBytes + 64<<10

// Handlers has the handlers of the operations.
type Handlers struct {
	*rest.Directory

	History      *history.Service
	Catalog      *catalog.Service
	Converse     *converse.Service // nil: this server runs no conversations
	Now          func() time.Time  // needed with Converse
	Logger       *slog.Logger
	Draining     context.Context // ends when event streams have to end
	Authenticate func(*http.Request) (rest.Caller, error)
}

// Routes lists the operations. Only owners speak in conversations; people who see all may read.
func (h *Handlers) Routes() []rest.Route {
	own := rest.Rule{Own: true, Roles: rest.Readers().Roles}
	ownOrOperator := rest.Rule{Own: true, Roles: rest.Operators().Roles}
	mine := rest.Rule{Own: true}
	const one = "conversations/{id}"
	return []rest.Route{
		rest.NewRoute("listConversations", "GET conversations", "List conversations, newest first", own, h.listConversations),
		rest.NewRoute("getConversation", "GET "+one, "Get a conversation with its catalog", own, h.getConversation),
		rest.NewRoute("getLatestConversation", "GET conversations/latest", "Get the caller's newest open conversation with an agent", mine, h.latestConversation),
		rest.NewRoute("createConversation", "POST conversations", "Start a conversation that Holdpoint runs with the agent's model", mine, h.createConversation).Creates().Takes(maxMessageBody),
		rest.NewRoute("listMessages", "GET "+one+"/messages", "List the entries of a conversation, oldest first", own, h.listMessages),
		rest.NewRoute("say", "POST "+one+"/messages", "Send a message", mine, h.sendMessage).Answers(http.StatusAccepted).Takes(maxMessageBody),
		rest.NewRoute("followConversation", "GET "+one+"/events", "Stream the entries of a conversation, past and new, as server-sent events", own, h.followConversation).Streams(rest.EventStream),
		rest.NewRoute("cancelConversation", "POST "+one+"/cancel", "Stop the current work; the conversation continues with the next message", ownOrOperator, h.cancelConversation),
		rest.NewRoute("closeConversation", "POST "+one+"/close", "End a conversation for good", ownOrOperator, h.closeConversation),
		rest.NewRoute("forkConversation", "POST "+one+"/fork", "Start another conversation with the entries up to a given one", mine, h.forkConversation).Creates().Takes(maxMessageBody),
		rest.NewRoute("previewAgent", "GET agents/{name}/tools", "List the tools that a new conversation of an agent would have, from stored listings; no server is asked", rest.Readers(), h.previewAgent),
	}
}
