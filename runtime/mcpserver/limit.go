package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/limit"
)

// Limits is the part of a *[limit.Service] that the endpoint uses.
type Limits interface {
	Admit(ctx context.Context, agentID uuid.UUID, limits limit.Limits) (done func(), err error)
}

// CodeLimited is the JSON-RPC error of a request over the agent's limits, with HTTP status 429. Its data has code,
// "rate_limited" or "concurrency_limited", and retry_after in seconds.
const CodeLimited = -32005

// admitRequest admits a request within the agent's limits, or answers it: RFC 6585, section 4. Requests count that reach skills'
// servers. The caller must call done when the request ends.
func (x *exchange) admitRequest() (done func(), ok bool) {
	switch x.msg.Method {
	case "tools/call", "resources/read", "prompts/get", "completion/complete":
	default:
		return func() {}, true
	}
	done, exceeded, err := x.takePlace(x.r.Context(), x.agent, x.limitSubmissions())
	switch {
	case err != nil:
		x.failInternal("admit request", err)
		return nil, false
	case exceeded == nil:
		return done, true
	}
	seconds := max(1, int(math.Ceil(exceeded.RetryAfter.Seconds())))
	x.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	fault := marshal(&jsonrpc.Error{
		Code: CodeLimited, Message: exceeded.Error() + "; nothing was executed, try again in " + strconv.Itoa(seconds) + " s",
		Data: marshal(map[string]any{"code": exceeded.Kind, "retry_after": seconds}),
	})
	if err := x.writeAnswer(http.StatusTooManyRequests, `,"error":`, [][]byte{fault}); err != nil {
		x.noteClientLeft(err)
	}
	return nil, false
}

// takePlace counts a request against a limit a minute and the agent's limit at once. exceeded, if not nil, is the limit that refuses it. The caller must call done when the
// request ends.
func (s *Server) takePlace(ctx context.Context, a *agent.Agent, perMinute int) (done func(), exceeded *limit.Exceeded, err error) {
	limits := limit.Limits{PerMinute: perMinute, Concurrency: a.Limits.Concurrency}
	if limits == (limit.Limits{}) {
		return func() {}, nil, nil
	}
	done, err = s.Limits.Admit(ctx, a.ID, limits)
	if exceeded, ok := errors.AsType[*limit.Exceeded](err); ok {
		s.Logger.Debug("request exceeds the agent's limit", "agent", a.Name, "limit", exceeded.Kind,
			"retry_after", exceeded.RetryAfter.Round(time.Millisecond))
		return nil, exceeded, nil
	}
	return done, nil, err
}

// tooManyPending answers a call that was not made because too many calls wait for people.
func (x *toolCall) tooManyPending(e *call.PendingError) {
	x.Logger.Debug("call exceeds the agent's limit of waiting calls", "agent", x.agent.Name, "limit", e.Limit, "waiting", e.Waiting)
	text := "This call was not made: " + e.Error() + ". Do not repeat it now. Wait until some of them are decided (" + awaitTool +
		" with the call_id of one) or have expired; an operator can reject them or raise the limit."
	if x.usesErrorCodes() {
		x.fail(&jsonrpc.Error{Code: CodeLimited, Message: text, Data: marshal(map[string]any{"code": codePendingLimit, "limit": e.Limit, "waiting": e.Waiting})})
		return
	}
	x.replyText(text, fmt.Appendf(nil, `"%s":{"code":"%s","limit":%d,"waiting":%d}`, metaCall, codePendingLimit, e.Limit, e.Waiting))
}
