package agent

import (
	"fmt"
	"strconv"
	"time"
)

// How an agent's endpoint tells its client what went wrong.
const (
	ErrorStyleMCP   = "mcp"   // as the MCP specification says: what a model can mend is a result with isError
	ErrorStyleCodes = "codes" // a JSON-RPC error for each, by the table of older gateways
)

// Whether a client may read the resources of a skill that is not auto-approved.
const (
	ResourcesGated = "gated" // only those that a finished call of the conversation returned
	ResourcesPass  = "pass"  // all of them
)

// DefaultCodesReplyTimeout is the reply timeout of agents with [ErrorStyleCodes]. Those with [ErrorStyleMCP] have none.
const DefaultCodesReplyTimeout = 60 * time.Second

// Limits bound what an agent's clients may send, together and to all processes. The zero value is no limit.
type Limits struct {
	CallsPerMinute int `json:"calls_per_minute,omitempty" minimum:"0" maximum:"1000000" doc:"Requests that reach skills' servers, a minute; 0 or left out: no limit."`
	Concurrency    int `json:"concurrency,omitempty" minimum:"0" maximum:"100000" doc:"Such requests that are being answered at one time; 0 or left out: no limit."`
}

const (
	maxCallsPerMinute = 1_000_000
	maxConcurrency    = 100_000
	maxReplyTimeout   = 24 * time.Hour
)

// endpoint is what an operator says of an agent's endpoint.
type endpoint struct {
	ErrorStyle   string        // never empty
	ReplyTimeout time.Duration // 0: that of the style
	Limits       Limits
}

// endpointOf is what a spec declares.
func endpointOf(spec *AgentSpec) endpoint {
	e := endpoint{ErrorStyle: spec.ErrorStyle, ReplyTimeout: orDefault(spec.ReplyTimeout, 0)}
	if e.ErrorStyle == "" {
		e.ErrorStyle = ErrorStyleMCP
	}
	set(&e.Limits, spec.Limits)
	return e
}

// with is what a patch makes of it.
func (e endpoint) with(patch *AgentPatch) endpoint {
	set(&e.ErrorStyle, patch.ErrorStyle)
	if patch.ReplyTimeout != nil {
		e.ReplyTimeout = time.Duration(*patch.ReplyTimeout)
	}
	set(&e.Limits, patch.Limits)
	return e
}

// replyTimeout is how long a reply may take. Zero: as long as it likes.
func (e endpoint) replyTimeout() time.Duration {
	if e.ReplyTimeout == 0 && e.ErrorStyle == ErrorStyleCodes {
		return DefaultCodesReplyTimeout
	}
	return e.ReplyTimeout
}

func (e endpoint) validate(r report) {
	r.check(e.ErrorStyle == ErrorStyleMCP || e.ErrorStyle == ErrorStyleCodes, "error_style", "must be mcp or codes")
	if e.ReplyTimeout != 0 {
		const low = time.Second
		r.check(e.ReplyTimeout >= low && e.ReplyTimeout <= maxReplyTimeout, "reply_timeout",
			fmt.Sprintf("must be between %s and %s, or 0s for that of the error style", Duration(low), Duration(maxReplyTimeout)))
	}
	at := r.below("limits")
	at.number("calls_per_minute", e.Limits.CallsPerMinute, maxCallsPerMinute)
	at.number("concurrency", e.Limits.Concurrency, maxConcurrency)
}

func (r report) number(field string, n, high int) {
	r.check(n >= 0 && n <= high, field, fmt.Sprintf("must be between 1 and %d, or 0 for no limit", high))
}

func (e endpoint) fields() []field {
	list := []field{{name: "error_style", value: e.ErrorStyle}}
	if e.ReplyTimeout != 0 {
		list = append(list, field{name: "reply_timeout", value: Duration(e.ReplyTimeout).String()})
	}
	if n := e.Limits.CallsPerMinute; n != 0 {
		list = append(list, field{name: "limits.calls_per_minute", value: strconv.Itoa(n)})
	}
	if n := e.Limits.Concurrency; n != 0 {
		list = append(list, field{name: "limits.concurrency", value: strconv.Itoa(n)})
	}
	return list
}

// resources is what a spec or a patch says of a skill's resources; left out, they are gated.
func resources(said string) string {
	if said == "" {
		return ResourcesGated
	}
	return said
}
