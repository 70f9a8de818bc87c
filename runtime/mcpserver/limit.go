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

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/limit"
)

// Limits is what the endpoint needs of a *[limit.Service].
type Limits interface {
	Admit(ctx context.Context, agentID uuid.UUID, limits limit.Limits) (done func(), err error)
}

// CodeLimited is the JSON-RPC error of a request that is more than the agent may make, with HTTP status 429. Its
// data has code, "rate_limited" or "concurrency_limited", and retry_after in seconds.
const CodeLimited = -32005

// counts reports whether requests of a method count against an agent's limits: those that reach skills' servers.
func counts(method string) bool {
	switch method {
	case "tools/call", "resources/read", "prompts/get", "completion/complete":
		return true
	}
	return false
}

// admitted takes a request in that counts, or answers. What it returns ends it.
func (x *exchange) admitted() (done func(), ok bool) {
	limits := limit.Limits{PerMinute: x.agent.Limits.CallsPerMinute, Concurrency: x.agent.Limits.Concurrency}
	if limits == (limit.Limits{}) || !counts(x.msg.method) {
		return func() {}, true
	}
	done, err := x.Limits.Admit(x.r.Context(), x.agent.ID, limits)
	if exceeded, is := errors.AsType[*limit.Exceeded](err); is {
		x.limited(exceeded)
		return nil, false
	}
	if err != nil {
		x.internal("admit a request", err)
		return nil, false
	}
	return done, true
}

// limited answers a request that is too much: RFC 6585, section 4.
func (x *exchange) limited(e *limit.Exceeded) {
	seconds := int(math.Ceil(e.RetryAfter.Seconds()))
	x.w.Header().Set("Retry-After", strconv.Itoa(max(seconds, 1)))
	x.Logger.Debug("a request is more than its agent may make", "agent", x.agent.Name, "limit", e.Kind,
		"retry_after", e.RetryAfter.Round(time.Millisecond))
	fault := marshal(&jsonrpc.Error{
		Code: CodeLimited, Message: e.Error() + "; nothing was executed, try again in " + strconv.Itoa(max(seconds, 1)) + " s",
		Data: marshal(map[string]any{"code": e.Kind, "retry_after": max(seconds, 1)}),
	})
	if err := x.answer(http.StatusTooManyRequests, `,"error":`, [][]byte{fault}); err != nil {
		x.left(err)
	}
}

// tooManyPending says that a call was not made because too many others wait for people.
func (x *exchange) tooManyPending(e *call.PendingError) {
	x.Logger.Debug("a call is more than its agent may have waiting", "agent", x.agent.Name, "limit", e.Limit, "waiting", e.Waiting)
	text := "This call was not made: " + e.Error() + ". Do not repeat it now. Wait until some of them are decided (" + awaitTool +
		" with the call_id of one) or have expired; an operator can reject them or raise the limit."
	if x.codes() {
		x.fail(&jsonrpc.Error{Code: CodeLimited, Message: text, Data: marshal(map[string]any{"code": codePendingLimit, "limit": e.Limit, "waiting": e.Waiting})})
		return
	}
	x.say(text, fmt.Appendf(nil, `"%s":{"code":"%s","limit":%d,"waiting":%d}`, metaCall, codePendingLimit, e.Limit, e.Waiting))
}
