package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

var errNoLoop = problem(http.StatusServiceUnavailable, CodeNotAvailable, "this server holds no conversations of its own")

// held checks that conversations are held here.
func (a *API) held() error {
	if a.converse == nil {
		return errNoLoop
	}
	return nil
}

// visibleConversation returns a conversation that the caller may see, and as whom: as its own agent and principal, or as
// somebody who only looks. To everybody else it does not exist.
func (a *API) visibleConversation(ctx context.Context, text string) (catalog.Conversation, converse.Viewer, error) {
	var nobody converse.Viewer
	id, err := idOf("conversation", text)
	if err != nil {
		return catalog.Conversation{}, nobody, err
	}
	found, err := a.catalog.ReadConversation(ctx, id)
	if err != nil {
		return catalog.Conversation{}, nobody, named(err, "conversation", text)
	}
	who := callerOf(ctx)
	own := found.PrincipalID == who.personID() && who.agent != nil && who.agent.ID == found.AgentID
	if who.person != nil && found.PrincipalID == who.personID() {
		names, err := a.agents.Names(ctx, []uuid.UUID{found.AgentID})
		if err != nil {
			return catalog.Conversation{}, nobody, err
		}
		own = who.person.MayActAs(names[found.AgentID])
	}
	switch {
	case own:
		return *found, ownerOfTalk(found), nil
	case who.seesAll():
		return *found, nobody, nil
	}
	return catalog.Conversation{}, nobody, notFound("conversation", text)
}

func ownerOfTalk(c *catalog.Conversation) converse.Viewer {
	return converse.Viewer{AgentID: c.AgentID, PrincipalID: c.PrincipalID}
}

// heldConversation is visibleConversation for what only conversations have that Holdpoint runs itself.
func (a *API) heldConversation(ctx context.Context, text string) (uuid.UUID, converse.Viewer, error) {
	if err := a.held(); err != nil {
		return uuid.Nil, converse.Viewer{}, err
	}
	found, viewer, err := a.visibleConversation(ctx, text)
	return found.ID, viewer, err
}

// loopOf is how a conversation stands that Holdpoint runs itself; null for others.
func (a *API) loopOf(ctx context.Context, id uuid.UUID) (*Loop, error) {
	if a.converse == nil {
		return nil, nil //nolint:nilnil // there is none, as of clients' own conversations
	}
	c, err := a.converse.Get(ctx, converse.Viewer{}, id)
	if errors.Is(err, converse.ErrNotFound) {
		return nil, nil //nolint:nilnil // likewise
	}
	if err != nil {
		return nil, err
	}
	return withPending(&c), nil
}

type createConversationInput struct {
	Body struct {
		Agent   string `json:"agent,omitempty" doc:"As which agent; needed by people, who may act as several."`
		Message string `json:"message,omitempty" doc:"The first message, at most 262,144 bytes; left out: it waits for one."`
	} `nameHint:"CreateConversationRequest"`
}

func (a *API) createConversation(ctx context.Context, input *createConversationInput) (*bodyOutput[Conversation], error) {
	if err := a.held(); err != nil {
		return nil, err
	}
	if callerOf(ctx).agent == nil && input.Body.Agent == "" {
		return nil, invalid("body.agent", "expected the name of an agent that you act as")
	}
	viewer, err := a.scope(ctx, input.Body.Agent)
	if err != nil {
		return nil, err
	}
	of, err := a.agents.AgentByID(ctx, viewer.AgentID)
	if err != nil {
		return nil, named(err, "agent", input.Body.Agent)
	}
	begun, err := a.converse.Begin(ctx, converse.Opening{Agent: of, Principal: viewer.PrincipalID, Message: input.Body.Message})
	if err != nil {
		return nil, err
	}
	return a.showConversation(ctx, begun.ID)
}

// showConversation shows one of the caller's own.
func (a *API) showConversation(ctx context.Context, id uuid.UUID) (*bodyOutput[Conversation], error) {
	return a.getConversation(ctx, &ByID{ID: id.String()})
}

type latestConversationInput struct {
	Agent string `query:"agent" doc:"As which agent; needed by people, who may act as several."`
}

func (a *API) latestConversation(ctx context.Context, input *latestConversationInput) (*bodyOutput[Conversation], error) {
	if err := a.held(); err != nil {
		return nil, err
	}
	viewer, err := a.scope(ctx, input.Agent)
	if err != nil {
		return nil, err
	}
	latest, err := a.converse.Latest(ctx, converse.Viewer(viewer))
	if err != nil {
		return nil, err
	}
	return a.showConversation(ctx, latest.ID)
}

type listMessagesInput struct {
	ByID
	Page
}

func (a *API) listMessages(ctx context.Context, input *listMessagesInput) (*listOutput[ConversationEntry], error) {
	id, viewer, err := a.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	after, err := input.numberCursor()
	if err != nil {
		return nil, err
	}
	found, err := a.converse.Entries(ctx, viewer, id, after, input.Limit+1)
	if err != nil {
		return nil, ofClient(err)
	}
	next := ""
	if len(found) > input.Limit {
		found = found[:input.Limit]
		next = strconv.FormatInt(found[len(found)-1].Seq, 10)
	}
	view, err := a.entryViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listOf(found, next, view), nil
}

type sayInput struct {
	ByID
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"The same message with the same key is said once in a conversation, however often it is sent: visible ASCII."`
	Body struct {
		Message string `json:"message" doc:"At most 262,144 bytes."`
	} `nameHint:"SayRequest"`
}

// Said is a message that was taken in.
type Said struct {
	Message ConversationMessage `json:"message"`
	Pending bool                `json:"pending" doc:"It waits for what is under way; the model is told of it with the results of its calls, or after its answer."`
}

func (a *API) say(ctx context.Context, input *sayInput) (*bodyOutput[Said], error) {
	for _, r := range input.Key {
		if r <= ' ' || r > '~' {
			return nil, invalid("header.Idempotency-Key", "expected visible ASCII characters")
		}
	}
	id, viewer, err := a.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	m, err := a.converse.SayOnce(ctx, viewer, id, input.Body.Message, input.Key)
	if err != nil {
		return nil, ofClient(err)
	}
	return output(Said{Message: newConversationMessage(&m), Pending: m.Pending}), nil
}

func (a *API) cancelConversation(ctx context.Context, input *ByID) (*bodyOutput[Conversation], error) {
	return a.finish(ctx, input, (*converse.Service).Stop)
}

func (a *API) closeConversation(ctx context.Context, input *ByID) (*bodyOutput[Conversation], error) {
	return a.finish(ctx, input, (*converse.Service).End)
}

// finish ends something in a conversation: whoever it is of may, and, as with calls, operators.
func (a *API) finish(
	ctx context.Context, input *ByID, f func(*converse.Service, context.Context, converse.Viewer, audit.Actor, uuid.UUID) error,
) (*bodyOutput[Conversation], error) {
	if err := a.held(); err != nil {
		return nil, err
	}
	found, viewer, err := a.visibleConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if who.has(identity.Operator) {
		viewer = ownerOfTalk(&found)
	}
	if err := f(a.converse, ctx, viewer, who.actor(), found.ID); err != nil {
		return nil, ofClient(err)
	}
	return a.showConversation(ctx, found.ID)
}

type forkInput struct {
	ByID
	Body struct {
		Seq     int64  `json:"seq" minimum:"1" doc:"The entry that it goes up to: a message, or a reply of whose calls the model was told how they ended."`
		Message string `json:"message,omitempty" doc:"Takes the place of that message, or follows that reply. Left out: after a message the model answers it anew, after a reply it waits."`
	} `nameHint:"ForkRequest"`
}

func (a *API) forkConversation(ctx context.Context, input *forkInput) (*bodyOutput[Conversation], error) {
	id, viewer, err := a.heldConversation(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	fork, err := a.converse.Fork(ctx, viewer, callerOf(ctx).actor(), id, input.Body.Seq, input.Body.Message)
	if err != nil {
		return nil, ofClient(err)
	}
	return a.showConversation(ctx, fork.ID)
}

// ofClient tells what was not found in a conversation that is there.
func ofClient(err error) error {
	if errors.Is(err, converse.ErrNotFound) {
		return problem(http.StatusConflict, CodeClientConversation,
			"the agent's own client runs this conversation: Holdpoint knows its calls, and nothing that is said in it")
	}
	return err
}

// converseProblem translates the errors of package converse.
func converseProblem(err error) *Problem {
	var wrong *converse.InvalidError
	switch {
	case errors.As(err, &wrong):
		return invalid("body."+wrong.Field, "expected %s", wrong.Expected)
	case errors.Is(err, converse.ErrReadOnly):
		return problem(http.StatusForbidden, CodeReadOnly, "only its own agent, on behalf of the same person, may do that in a conversation; you may look at it")
	case errors.Is(err, converse.ErrEnded):
		return problem(http.StatusConflict, CodeConversationEnded, "the conversation has ended: fork it, or start another")
	case errors.Is(err, converse.ErrIdle):
		return problem(http.StatusConflict, CodeConversationIdle, "the conversation is not at work: there is nothing to cancel")
	case errors.Is(err, converse.ErrNoModel):
		return problem(http.StatusConflict, CodeNoModel, "the agent has no model to converse with: an operator gives it one")
	case errors.Is(err, converse.ErrKeyReused):
		p := invalid("header.Idempotency-Key", "expected a new key: another message was said with this one")
		p.Code = CodeKeyReused
		return p
	}
	return nil
}
