package conversations

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

var errNoLoop = rest.NewProblem(http.StatusServiceUnavailable, rest.CodeNotAvailable, "this server runs no conversations")

// checkHeld checks that this server runs conversations.
func (h *Handlers) checkHeld() error {
	if h.Converse == nil {
		return errNoLoop
	}
	return nil
}

// visibleConversation returns a conversation that the caller may see, and the caller as its viewer: its owner, or a reader. To
// other callers it does not exist.
func (h *Handlers) visibleConversation(ctx context.Context, text string) (catalog.Conversation, converse.Viewer, error) {
	var nobody converse.Viewer
	id, err := rest.ParseID("conversation", text)
	if err != nil {
		return catalog.Conversation{}, nobody, err
	}
	found, err := h.Catalog.ReadConversation(ctx, id)
	if err != nil {
		return catalog.Conversation{}, nobody, rest.WithName(err, "conversation", text)
	}
	who := rest.CallerOf(ctx)
	own := found.PrincipalID == who.PersonID() && who.Agent != nil && who.Agent.ID == found.AgentID
	if who.Person != nil && found.PrincipalID == who.PersonID() {
		names, err := h.Agents.Names(ctx, []uuid.UUID{found.AgentID})
		if err != nil {
			return catalog.Conversation{}, nobody, err
		}
		own = who.Person.MayActAs(names[found.AgentID])
	}
	switch {
	case own:
		return *found, ownerOfTalk(found), nil
	case who.SeesAll():
		return *found, nobody, nil
	}
	return catalog.Conversation{}, nobody, rest.NotFound("conversation", text)
}

func ownerOfTalk(c *catalog.Conversation) converse.Viewer {
	return converse.Viewer{AgentID: c.AgentID, PrincipalID: c.PrincipalID}
}

// heldConversation is visibleConversation for operations on conversations that Holdpoint runs.
func (h *Handlers) heldConversation(ctx context.Context, text string) (uuid.UUID, converse.Viewer, error) {
	if err := h.checkHeld(); err != nil {
		return uuid.Nil, converse.Viewer{}, err
	}
	found, viewer, err := h.visibleConversation(ctx, text)
	return found.ID, viewer, err
}

// loopOf returns the state of a conversation that Holdpoint runs, null for others.
func (h *Handlers) loopOf(ctx context.Context, id uuid.UUID) (*Loop, error) {
	if h.Converse == nil {
		return nil, nil //nolint:nilnil // there is none, as of clients' own conversations
	}
	c, err := h.Converse.Get(ctx, converse.Viewer{}, id)
	if errors.Is(err, converse.ErrNotFound) {
		return nil, nil //nolint:nilnil // the client's own conversation has none
	}
	if err != nil {
		return nil, err
	}
	return withPending(&c), nil
}

type createConversationInput struct {
	Body struct {
		Agent   string `json:"agent,omitempty" doc:"The agent to act as; required for people."`
		Message string `json:"message,omitempty" doc:"The first message, at most 262,144 bytes; omitted: it waits for one."`
	} `nameHint:"CreateConversationRequest"`
}

func (h *Handlers) createConversation(ctx context.Context, input *createConversationInput) (*rest.Output[Conversation], error) {
	if err := h.checkHeld(); err != nil {
		return nil, err
	}
	if rest.CallerOf(ctx).Agent == nil && input.Body.Agent == "" {
		return nil, rest.InvalidField("body.agent", "must be the name of an agent that you act as")
	}
	viewer, err := h.OwnViewer(ctx, input.Body.Agent)
	if err != nil {
		return nil, err
	}
	of, err := h.Agents.AgentByID(ctx, viewer.AgentID)
	if err != nil {
		return nil, rest.WithName(err, "agent", input.Body.Agent)
	}
	begun, err := h.Converse.Begin(ctx, converse.Opening{Agent: of, Principal: viewer.PrincipalID, Message: input.Body.Message})
	if err != nil {
		return nil, err
	}
	return h.showConversation(ctx, begun.ID)
}

// showConversation returns a conversation of the caller.
func (h *Handlers) showConversation(ctx context.Context, id uuid.UUID) (*rest.Output[Conversation], error) {
	return h.getConversation(ctx, &rest.ByID{ID: id.String()})
}

type latestConversationInput struct {
	Agent string `query:"agent" doc:"The agent to act as; required for people."`
}

func (h *Handlers) latestConversation(ctx context.Context, input *latestConversationInput) (*rest.Output[Conversation], error) {
	if err := h.checkHeld(); err != nil {
		return nil, err
	}
	viewer, err := h.OwnViewer(ctx, input.Agent)
	if err != nil {
		return nil, err
	}
	latest, err := h.Converse.Latest(ctx, converse.Viewer(viewer))
	if err != nil {
		return nil, err
	}
	return h.showConversation(ctx, latest.ID)
}

type listMessagesInput struct {
	rest.ByID
	rest.Page
}

func (h *Handlers) listMessages(ctx context.Context, input *listMessagesInput) (*rest.ListOutput[ConversationEntry], error) {
	id, viewer, err := h.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	after, err := input.NumberCursor()
	if err != nil {
		return nil, err
	}
	found, err := h.Converse.Entries(ctx, viewer, id, after, input.Limit+1)
	if err != nil {
		return nil, ofClient(err)
	}
	next := ""
	if len(found) > input.Limit {
		found = found[:input.Limit]
		next = strconv.FormatInt(found[len(found)-1].Seq, 10)
	}
	view, err := h.entryViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, next, view), nil
}

type sayInput struct {
	rest.ByID
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"Visible ASCII. The same message with the same key is added to a conversation only once."`
	Body struct {
		Message string `json:"message" doc:"At most 262,144 bytes."`
	} `nameHint:"SayRequest"`
}

// Said is a message that was taken in.
type Said struct {
	Message ConversationMessage `json:"message"`
	Pending bool                `json:"pending" doc:"It waits for the current work; the model gets it with the results of its calls, or after its answer."`
}

func (h *Handlers) sendMessage(ctx context.Context, input *sayInput) (*rest.Output[Said], error) {
	for _, r := range input.Key {
		if r <= ' ' || r > '~' {
			return nil, rest.InvalidField("header.Idempotency-Key", "must be visible ASCII characters")
		}
	}
	id, viewer, err := h.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	m, err := h.Converse.SayOnce(ctx, viewer, id, input.Body.Message, input.Key)
	if err != nil {
		return nil, ofClient(err)
	}
	return rest.NewOutput(Said{Message: newConversationMessage(&m), Pending: m.Pending}), nil
}

func (h *Handlers) cancelConversation(ctx context.Context, input *rest.ByID) (*rest.Output[Conversation], error) {
	return h.finishConversation(ctx, input, (*converse.Service).Stop)
}

func (h *Handlers) closeConversation(ctx context.Context, input *rest.ByID) (*rest.Output[Conversation], error) {
	return h.finishConversation(ctx, input, (*converse.Service).End)
}

// finishConversation stops or ends a conversation, for its owner and for operators.
func (h *Handlers) finishConversation(
	ctx context.Context, input *rest.ByID, f func(*converse.Service, context.Context, converse.Viewer, audit.Actor, uuid.UUID) error,
) (*rest.Output[Conversation], error) {
	if err := h.checkHeld(); err != nil {
		return nil, err
	}
	found, viewer, err := h.visibleConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	who := rest.CallerOf(ctx)
	if who.HasRole(identity.Operator) {
		viewer = ownerOfTalk(&found)
	}
	if err := f(h.Converse, ctx, viewer, who.Actor(), found.ID); err != nil {
		return nil, ofClient(err)
	}
	return h.showConversation(ctx, found.ID)
}

type forkInput struct {
	rest.ByID
	Body struct {
		Seq     int64  `json:"seq" minimum:"1" doc:"The last entry to copy: a message, or a reply whose calls all have results."`
		Message string `json:"message,omitempty" doc:"Replaces that message, or follows that reply. Omitted: the model answers the message again, or the conversation waits after the reply."`
	} `nameHint:"ForkRequest"`
}

func (h *Handlers) forkConversation(ctx context.Context, input *forkInput) (*rest.Output[Conversation], error) {
	id, viewer, err := h.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	fork, err := h.Converse.Fork(ctx, viewer, rest.CallerOf(ctx).Actor(), id, input.Body.Seq, input.Body.Message)
	if err != nil {
		return nil, ofClient(err)
	}
	return h.showConversation(ctx, fork.ID)
}

// ofClient turns a not-found error about an existing conversation into a conflict: its client runs it.
func ofClient(err error) error {
	if errors.Is(err, converse.ErrNotFound) {
		return rest.NewProblem(http.StatusConflict, rest.CodeClientConversation,
			"the agent's own client runs this conversation: Holdpoint knows its calls, and nothing that is said in it")
	}
	return err
}

// Problem maps the errors of package converse, nil for other errors.
func Problem(err error) *rest.Problem {
	switch {
	case errors.Is(err, converse.ErrReadOnly):
		return rest.NewProblem(http.StatusForbidden, rest.CodeReadOnly, "only its own agent, on behalf of the same person, may change a conversation; you may read it")
	case errors.Is(err, converse.ErrEnded):
		return rest.NewProblem(http.StatusConflict, rest.CodeConversationEnded, "the conversation has ended: fork it, or start another")
	case errors.Is(err, converse.ErrIdle):
		return rest.NewProblem(http.StatusConflict, rest.CodeConversationIdle, "the conversation is idle: there is nothing to cancel")
	case errors.Is(err, converse.ErrNoModel):
		return rest.NewProblem(http.StatusConflict, rest.CodeNoModel, "the agent has no model: an operator has to set one")
	case errors.Is(err, converse.ErrKeyReused):
		p := rest.InvalidField("header.Idempotency-Key", "must be a new key: another message was said with this one")
		p.Code = rest.CodeKeyReused
		return p
	}
	return nil
}
