package operate

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/callback"
)

type callbackHandlers struct {
	*rest.Directory

	callbacks *callback.Service
}

// Callback notifies another system of an agent's calls. Its URL and its secrets are not included.
type Callback struct {
	ID             uuid.UUID  `json:"id" format:"uuid"`
	Agent          string     `json:"agent"`
	Name           string     `json:"name"`
	Host           string     `json:"host" doc:"The host of its URL."`
	State          string     `json:"state" enum:"new,working,failing,disabled" doc:"The result of the last delivery attempt; new: no attempt yet."`
	DisabledReason *string    `json:"disabled_reason" enum:"operator,gone" doc:"gone: it responded with 410; null: it is enabled."`
	DisabledAt     *time.Time `json:"disabled_at"`
	Error          *string    `json:"error" doc:"The error of the last attempt; null: it succeeded."`
	Waiting        int        `json:"waiting" doc:"Deliveries that are pending."`
	SentAt         *time.Time `json:"sent_at" doc:"The last successful delivery."`
	FailedAt       *time.Time `json:"failed_at" doc:"The last failed attempt."`
	EarlierUntil   *time.Time `json:"earlier_secret_until" doc:"When the previous secret stops signing too; null: only the current one signs."`
	CreatedBy      *string    `json:"created_by" doc:"The operator who created it; null: the system."`
	CreatedAt      time.Time  `json:"created_at"`
}

// NewCallback is a callback with its secret, which is not shown again.
type NewCallback struct {
	Callback
	Secret string `json:"secret" doc:"whsec_ and the base64 of the key, as libraries for Standard Webhooks expect it. It is shown only once."`
}

// Delivery is a message to a callback, with its attempts.
type Delivery struct {
	ID             uuid.UUID  `json:"id" format:"uuid" doc:"Its webhook-id header."`
	Type           string     `json:"type" enum:"call.parked,call.decided,call.finished,callback.test"`
	At             time.Time  `json:"at" doc:"When the event happened."`
	CallID         *uuid.UUID `json:"call_id" format:"uuid" doc:"Null: it is a test."`
	ConversationID *uuid.UUID `json:"conversation_id" format:"uuid"`
	Tool           *string    `json:"tool" doc:"The agent's name for the tool."`
	Status         *string    `json:"status" doc:"The status of the call at that time."`
	Code           *string    `json:"code"`
	State          string     `json:"state" enum:"waiting,delivered,failed" doc:"failed: there are no more attempts."`
	Error          *string    `json:"error" doc:"The error of the delivery or of its last attempt; null: none."`
	Attempts       int        `json:"attempts"`
	Log            []Attempt  `json:"log" nullable:"false" doc:"The last attempts, at most 20, newest first."`
}

// Attempt to send a message.
type Attempt struct {
	Number     int       `json:"number"`
	At         time.Time `json:"at" doc:"When it ended."`
	DurationMS *int64    `json:"duration_ms" doc:"The response time; null: there was no response."`
	HTTPStatus *int      `json:"http_status" doc:"Null: there was no response."`
	Error      *string   `json:"error" doc:"Null: it was accepted."`
}

func (h *callbackHandlers) callbackViews(ctx context.Context, agentName string, callbacks ...callback.Callback) (func(callback.Callback) Callback, error) {
	ids := make([]uuid.UUID, len(callbacks))
	for i := range callbacks {
		ids[i] = callbacks[i].CreatedBy
	}
	names, err := h.NamePeople(ctx, ids...)
	if err != nil {
		return nil, err
	}
	return func(c callback.Callback) Callback {
		return Callback{
			ID: c.ID, Agent: agentName, Name: c.Name, Host: c.Host, State: c.State(), DisabledReason: rest.OrNull(c.DisabledReason),
			DisabledAt: rest.UTCOrNull(c.DisabledAt), Error: rest.OrNull(c.Error), Waiting: c.Waiting, SentAt: rest.UTCOrNull(c.SentAt),
			FailedAt: rest.UTCOrNull(c.FailedAt), EarlierUntil: rest.UTCOrNull(c.EarlierUntil),
			CreatedBy: rest.OrNull(names.NameOf(c.CreatedBy)), CreatedAt: c.CreatedAt.UTC(),
		}
	}, nil
}

func deliveryView(d callback.Delivery) Delivery {
	view := Delivery{
		ID: d.ID, Type: string(d.Type), At: d.At.UTC(), CallID: rest.IDOrNull(d.CallID), ConversationID: rest.IDOrNull(d.ConversationID), Tool: rest.OrNull(d.Tool),
		Status: rest.OrNull(d.Status), Code: rest.OrNull(d.Code), State: d.State, Error: rest.OrNull(d.Error), Attempts: d.Attempts, Log: []Attempt{},
	}
	for _, t := range d.Log {
		attempt := Attempt{Number: t.Number, At: t.At.UTC(), Error: rest.OrNull(t.Error)}
		if t.HTTPStatus != 0 {
			attempt.HTTPStatus, attempt.DurationMS = &t.HTTPStatus, new(t.Duration.Milliseconds())
		}
		view.Log = append(view.Log, attempt)
	}
	return view
}

// ByCallback is the part of a request that names a callback of an agent.
type ByCallback struct {
	rest.ByName
	Callback string `path:"callback" doc:"The callback's name."`
}

// agentOf finds the agent of a request.
func (h *callbackHandlers) agentOf(ctx context.Context, name string) (*agent.Agent, error) {
	found, err := h.Agents.AgentByName(ctx, name)
	return found, rest.WithName(err, "agent", name)
}

// listCallbacks has no pages: an agent has few.
func (h *callbackHandlers) listCallbacks(ctx context.Context, input *rest.ByName) (*rest.ListOutput[Callback], error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	found, err := h.callbacks.Callbacks(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	view, err := h.callbackViews(ctx, of.Name, found...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, "", view), nil
}

type createCallbackInput struct {
	rest.ByName
	Body struct {
		Name string `json:"name" doc:"1 to 64 of a-z, 0-9, '.', '_' and '-'."`
		URL  string `json:"url" doc:"https, at a public address; http and private addresses only for the hosts of --trusted-hosts. It is stored encrypted and not shown again."`
	} `nameHint:"CallbackRequest"`
}

func (h *callbackHandlers) createCallback(ctx context.Context, input *createCallbackInput) (*rest.Output[NewCallback], error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	made, secret, err := h.callbacks.Create(ctx, rest.CallerOf(ctx).Actor(), of, callback.NewCallback(input.Body))
	if err != nil {
		return nil, err
	}
	return h.newCallback(ctx, of, made, secret)
}

func (h *callbackHandlers) newCallback(ctx context.Context, of *agent.Agent, c callback.Callback, secret string) (*rest.Output[NewCallback], error) {
	view, err := h.callbackViews(ctx, of.Name, c)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(NewCallback{view(c), secret}), nil
}

type rotateCallbackInput struct {
	ByCallback
	Body struct {
		GraceSeconds *int64 `json:"grace_seconds,omitempty" doc:"How long the previous secret signs too, at most 604800. Omitted: 86400, a day. 0: it stops at once."`
	} `nameHint:"RotationRequest"`
}

func (h *callbackHandlers) rotateCallback(ctx context.Context, input *rotateCallbackInput) (*rest.Output[NewCallback], error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	grace := callback.DefaultGrace
	if seconds := input.Body.GraceSeconds; seconds != nil {
		if *seconds < 0 || *seconds > int64(callback.MaxGrace.Seconds()) {
			return nil, rest.InvalidField("body.grace_seconds", "must be from 0 to %d", int64(callback.MaxGrace.Seconds()))
		}
		grace = time.Duration(*seconds) * time.Second
	}
	rotated, secret, err := h.callbacks.Rotate(ctx, rest.CallerOf(ctx).Actor(), of, input.Callback, grace)
	if err != nil {
		return nil, rest.WithName(err, "callback", input.Callback)
	}
	return h.newCallback(ctx, of, rotated, secret)
}

func (h *callbackHandlers) deleteCallback(ctx context.Context, input *ByCallback) (*rest.None, error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return nil, rest.WithName(h.callbacks.Delete(ctx, rest.CallerOf(ctx).Actor(), of, input.Callback), "callback", input.Callback)
}

func (h *callbackHandlers) enableCallback(ctx context.Context, input *ByCallback) (*rest.Output[Callback], error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return h.changeCallback(ctx, of, input.Callback, h.callbacks.Enable(ctx, rest.CallerOf(ctx).Actor(), of, input.Callback))
}

func (h *callbackHandlers) disableCallback(ctx context.Context, input *ByCallback) (*rest.Output[Callback], error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return h.changeCallback(ctx, of, input.Callback, h.callbacks.Disable(ctx, rest.CallerOf(ctx).Actor(), of, input.Callback))
}

// changeCallback is a callback as a change left it.
func (h *callbackHandlers) changeCallback(ctx context.Context, of *agent.Agent, name string, err error) (*rest.Output[Callback], error) {
	var c callback.Callback
	if err == nil {
		c, err = h.callbacks.Callback(ctx, of.ID, name)
	}
	if err != nil {
		return nil, rest.WithName(err, "callback", name)
	}
	view, err := h.callbackViews(ctx, of.Name, c)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(c)), nil
}

// testCallback answers when the receiver has: the delivery says how.
func (h *callbackHandlers) testCallback(ctx context.Context, input *ByCallback) (*rest.Output[Delivery], error) {
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	d, err := h.callbacks.Test(ctx, rest.CallerOf(ctx).Actor(), of, input.Callback)
	if err != nil {
		return nil, rest.WithName(err, "callback", input.Callback)
	}
	return rest.NewOutput(deliveryView(d)), nil
}

type listDeliveriesInput struct {
	ByCallback
	rest.Page
}

func (h *callbackHandlers) listDeliveries(ctx context.Context, input *listDeliveriesInput) (*rest.ListOutput[Delivery], error) {
	before, err := input.NumberCursor()
	if err != nil {
		return nil, err
	}
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	c, err := h.callbacks.Callback(ctx, of.ID, input.Callback)
	if err != nil {
		return nil, rest.WithName(err, "callback", input.Callback)
	}
	found, next, err := h.callbacks.Deliveries(ctx, c.ID, before, input.Limit)
	if err != nil {
		return nil, err
	}
	cursor := ""
	if next > 0 {
		cursor = strconv.FormatInt(next, 10)
	}
	return rest.ListOf(found, cursor, deliveryView), nil
}

type resendInput struct {
	ByCallback
	rest.ByID
}

func (h *callbackHandlers) resendDelivery(ctx context.Context, input *resendInput) (*rest.Output[Delivery], error) {
	id, err := rest.ParseID("delivery", input.ID)
	if err != nil {
		return nil, err
	}
	of, err := h.agentOf(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	d, err := h.callbacks.Resend(ctx, rest.CallerOf(ctx).Actor(), of, input.Callback, id)
	if err != nil {
		return nil, rest.WithName(err, "delivery", input.ID)
	}
	return rest.NewOutput(deliveryView(d)), nil
}
