package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/callback"
)

// Callback is where another system is told of an agent's calls. Its URL and its secrets are not among this.
type Callback struct {
	ID             uuid.UUID  `json:"id" format:"uuid"`
	Agent          string     `json:"agent"`
	Name           string     `json:"name"`
	Host           string     `json:"host" doc:"Of its URL."`
	State          string     `json:"state" enum:"new,working,failing,disabled" doc:"How the last attempt to send something to it went; new: there was none."`
	DisabledReason *string    `json:"disabled_reason" enum:"operator,gone" doc:"gone: it answered 410; null: it is not disabled."`
	DisabledAt     *time.Time `json:"disabled_at"`
	Error          *string    `json:"error" doc:"What was wrong with the last attempt; null: nothing."`
	Waiting        int        `json:"waiting" doc:"Messages that are still to be sent."`
	SentAt         *time.Time `json:"sent_at" doc:"When it took a message last."`
	FailedAt       *time.Time `json:"failed_at" doc:"When it did not, last."`
	EarlierUntil   *time.Time `json:"earlier_secret_until" doc:"Until when an earlier secret signs beside the present one; null: none does."`
	CreatedBy      *string    `json:"created_by" doc:"The operator who made it; null: the system."`
	CreatedAt      time.Time  `json:"created_at"`
}

// NewCallback is a callback with its secret, which is not shown again.
type NewCallback struct {
	Callback
	Secret string `json:"secret" doc:"whsec_ and base64 of the key: what the libraries of Standard Webhooks take. It is not shown again."`
}

// Delivery is a message to a callback, and what came of it.
type Delivery struct {
	ID             uuid.UUID  `json:"id" format:"uuid" doc:"The webhook-id that it is sent with."`
	Type           string     `json:"type" enum:"call.parked,call.decided,call.finished,callback.test"`
	At             time.Time  `json:"at" doc:"When what it tells of happened."`
	CallID         *uuid.UUID `json:"call_id" format:"uuid" doc:"Null: it is a test."`
	ConversationID *uuid.UUID `json:"conversation_id" format:"uuid"`
	Tool           *string    `json:"tool" doc:"As the agent calls it."`
	Status         *string    `json:"status" doc:"Of the call, then."`
	Code           *string    `json:"code"`
	State          string     `json:"state" enum:"waiting,delivered,failed" doc:"failed: it is not tried again."`
	Error          *string    `json:"error" doc:"Why it failed, or the last attempt did; null: neither."`
	Attempts       int        `json:"attempts"`
	Log            []Attempt  `json:"log" nullable:"false" doc:"The last attempts, at most 20, the newest first."`
}

// Attempt to send a message.
type Attempt struct {
	Number     int       `json:"number"`
	At         time.Time `json:"at" doc:"When it ended."`
	DurationMS *int64    `json:"duration_ms" doc:"How long the answer took; null: there was none."`
	HTTPStatus *int      `json:"http_status" doc:"Null: there was no answer."`
	Error      *string   `json:"error" doc:"Null: the message was taken."`
}

func (a *API) callbackViews(ctx context.Context, agentName string, callbacks ...callback.Callback) (func(callback.Callback) Callback, error) {
	ids := make([]uuid.UUID, len(callbacks))
	for i := range callbacks {
		ids[i] = callbacks[i].CreatedBy
	}
	names, err := a.people(ctx, ids...)
	if err != nil {
		return nil, err
	}
	return func(c callback.Callback) Callback {
		return Callback{
			ID: c.ID, Agent: agentName, Name: c.Name, Host: c.Host, State: c.State(), DisabledReason: orNull(c.DisabledReason),
			DisabledAt: utcOrNull(c.DisabledAt), Error: orNull(c.Error), Waiting: c.Waiting, SentAt: utcOrNull(c.SentAt),
			FailedAt: utcOrNull(c.FailedAt), EarlierUntil: utcOrNull(c.EarlierUntil),
			CreatedBy: orNull(names.of(c.CreatedBy)), CreatedAt: c.CreatedAt.UTC(),
		}
	}, nil
}

func deliveryView(d callback.Delivery) Delivery {
	view := Delivery{
		ID: d.ID, Type: d.Type, At: d.At.UTC(), CallID: idOrNull(d.CallID), ConversationID: idOrNull(d.ConversationID), Tool: orNull(d.Tool),
		Status: orNull(d.Status), Code: orNull(d.Code), State: d.State, Error: orNull(d.Error), Attempts: d.Attempts, Log: []Attempt{},
	}
	for _, t := range d.Log {
		attempt := Attempt{Number: t.Number, At: t.At.UTC(), Error: orNull(t.Error)}
		if t.HTTPStatus != 0 {
			attempt.HTTPStatus, attempt.DurationMS = &t.HTTPStatus, new(t.Duration.Milliseconds())
		}
		view.Log = append(view.Log, attempt)
	}
	return view
}

// ByCallback is the part of a request that names a callback of an agent.
type ByCallback struct {
	ByName
	Callback string `path:"callback" doc:"Its name."`
}

// agentOf finds the agent of a request.
func (a *API) agentOf(ctx context.Context, name string) (*agent.Agent, error) {
	found, err := a.agents.AgentByName(ctx, name)
	return found, named(err, "agent", name)
}

// listCallbacks has no pages: an agent has few.
func (a *API) listCallbacks(ctx context.Context, input *ByName) (*listOutput[Callback], error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	found, err := a.callbacks.Callbacks(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	view, err := a.callbackViews(ctx, of.Name, found...)
	if err != nil {
		return nil, err
	}
	return listOf(found, "", view), nil
}

type createCallbackInput struct {
	ByName
	Body struct {
		Name string `json:"name" doc:"1 to 64 of a-z, 0-9, '.', '_' and '-'."`
		URL  string `json:"url" doc:"https, at a public address; http and private addresses only for the hosts of --trusted-hosts. It is kept encrypted and not shown again."`
	} `nameHint:"CallbackRequest"`
}

func (a *API) createCallback(ctx context.Context, input *createCallbackInput) (*bodyOutput[NewCallback], error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	made, secret, err := a.callbacks.Create(ctx, callerOf(ctx).actor(), of, callback.NewCallback(input.Body))
	if err != nil {
		return nil, err
	}
	return a.newCallback(ctx, of, made, secret)
}

func (a *API) newCallback(ctx context.Context, of *agent.Agent, c callback.Callback, secret string) (*bodyOutput[NewCallback], error) {
	view, err := a.callbackViews(ctx, of.Name, c)
	if err != nil {
		return nil, err
	}
	return output(NewCallback{view(c), secret}), nil
}

type rotateCallbackInput struct {
	ByCallback
	Body struct {
		GraceSeconds *int64 `json:"grace_seconds,omitempty" doc:"How long the earlier secret signs too, at most 604800. Left out: 86400, a day. 0: it stops at once."`
	} `nameHint:"RotationRequest"`
}

func (a *API) rotateCallback(ctx context.Context, input *rotateCallbackInput) (*bodyOutput[NewCallback], error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	grace := callback.DefaultGrace
	if seconds := input.Body.GraceSeconds; seconds != nil {
		if *seconds < 0 || *seconds > int64(callback.MaxGrace.Seconds()) {
			return nil, invalid("body.grace_seconds", "must be from 0 to %d", int64(callback.MaxGrace.Seconds()))
		}
		grace = time.Duration(*seconds) * time.Second
	}
	rotated, secret, err := a.callbacks.Rotate(ctx, callerOf(ctx).actor(), of, input.Callback, grace)
	if err != nil {
		return nil, named(err, "callback", input.Callback)
	}
	return a.newCallback(ctx, of, rotated, secret)
}

func (a *API) deleteCallback(ctx context.Context, input *ByCallback) (*none, error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return nil, named(a.callbacks.Delete(ctx, callerOf(ctx).actor(), of, input.Callback), "callback", input.Callback)
}

func (a *API) enableCallback(ctx context.Context, input *ByCallback) (*bodyOutput[Callback], error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return a.changed(ctx, of, input.Callback, a.callbacks.Enable(ctx, callerOf(ctx).actor(), of, input.Callback))
}

func (a *API) disableCallback(ctx context.Context, input *ByCallback) (*bodyOutput[Callback], error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return a.changed(ctx, of, input.Callback, a.callbacks.Disable(ctx, callerOf(ctx).actor(), of, input.Callback))
}

// changed is a callback as a change left it.
func (a *API) changed(ctx context.Context, of *agent.Agent, name string, err error) (*bodyOutput[Callback], error) {
	var c callback.Callback
	if err == nil {
		c, err = a.callbacks.Callback(ctx, of.ID, name)
	}
	if err != nil {
		return nil, named(err, "callback", name)
	}
	view, err := a.callbackViews(ctx, of.Name, c)
	if err != nil {
		return nil, err
	}
	return output(view(c)), nil
}

// testCallback answers when the receiver has: the delivery says how.
func (a *API) testCallback(ctx context.Context, input *ByCallback) (*bodyOutput[Delivery], error) {
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	d, err := a.callbacks.Test(ctx, callerOf(ctx).actor(), of, input.Callback)
	if err != nil {
		return nil, named(err, "callback", input.Callback)
	}
	return output(deliveryView(d)), nil
}

type listDeliveriesInput struct {
	ByCallback
	Page
}

func (a *API) listDeliveries(ctx context.Context, input *listDeliveriesInput) (*listOutput[Delivery], error) {
	before, err := input.numberCursor()
	if err != nil {
		return nil, err
	}
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	c, err := a.callbacks.Callback(ctx, of.ID, input.Callback)
	if err != nil {
		return nil, named(err, "callback", input.Callback)
	}
	found, next, err := a.callbacks.Deliveries(ctx, c.ID, before, input.Limit)
	if err != nil {
		return nil, err
	}
	cursor := ""
	if next > 0 {
		cursor = strconv.FormatInt(next, 10)
	}
	return listOf(found, cursor, deliveryView), nil
}

type resendInput struct {
	ByCallback
	ByID
}

func (a *API) resendDelivery(ctx context.Context, input *resendInput) (*bodyOutput[Delivery], error) {
	id, err := idOf("delivery", input.ID)
	if err != nil {
		return nil, err
	}
	of, err := a.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	d, err := a.callbacks.Resend(ctx, callerOf(ctx).actor(), of, input.Callback, id)
	if err != nil {
		return nil, named(err, "delivery", input.ID)
	}
	return output(deliveryView(d)), nil
}

// callbackProblem tells what is wrong with what was asked of callbacks. Nil: the error is no such.
func callbackProblem(err error) *Problem {
	var wrong *callback.InvalidError
	switch {
	case errors.As(err, &wrong):
		return invalid("body."+wrong.Field, "%s", wrong.Expected)
	case errors.Is(err, callback.ErrDisabled):
		return problem(http.StatusConflict, CodeStateConflict, "the callback is disabled: enable it first")
	case errors.Is(err, callback.ErrNotFound):
		return problem(http.StatusNotFound, CodeNotFound, "there is no such callback here")
	}
	return nil
}
