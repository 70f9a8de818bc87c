package agent

import (
	"fmt"
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

// Who decides about the questions that a server asks while it works on a gated call.
const (
	QuestionsReviewer = "reviewer" // a reviewer, about the question and the client's answer
	QuestionsClient   = "client"   // the client alone; both are recorded
)

// DefaultCodesReplyTimeout is the reply timeout of agents with [ErrorStyleCodes]. Those with [ErrorStyleMCP] have none.
const DefaultCodesReplyTimeout = 60 * time.Second

const maxReplyTimeout = 24 * time.Hour

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
	e.Limits.validate(r.below("limits"))
}

func (e endpoint) fields() []field {
	list := []field{{name: "error_style", value: e.ErrorStyle}}
	if e.ReplyTimeout != 0 {
		list = append(list, field{name: "reply_timeout", value: Duration(e.ReplyTimeout).String()})
	}
	return append(list, e.Limits.fields()...)
}

// resources is what a spec or a patch says of a skill's resources; left out, they are gated.
func resources(said string) string {
	if said == "" {
		return ResourcesGated
	}
	return said
}
