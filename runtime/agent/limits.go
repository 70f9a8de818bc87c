package agent

import (
	"fmt"
	"strconv"
	"time"
)

// Limits restrict an agent. Those on requests and pending calls hold for all clients and processes together; those on
// conversations hold for each conversation that Holdpoint runs. Zero is no limit, except for Pending and ConversationTurns.
type Limits struct {
	CallsPerMinute int `json:"calls_per_minute,omitempty" minimum:"0" maximum:"1000000" doc:"Requests to skills' servers in a minute. 0 or omitted: no limit." unit:"requests in a minute" otherwise:"no limit"`
	Concurrency    int `json:"concurrency,omitempty" minimum:"0" maximum:"100000" doc:"Requests to skills' servers at the same time. 0 or omitted: no limit." unit:"requests" otherwise:"no limit"`

	Pending int `json:"pending,omitempty" minimum:"0" maximum:"100000" doc:"Calls for one person, or for nobody, that wait for a decision or a connection. 0 or omitted: 100. An agent can have 1,000 in total, or this number if it is larger." unit:"calls" otherwise:"100"`

	ConversationTurns  int      `json:"conversation_turns,omitempty" minimum:"0" maximum:"100000" doc:"Requests to the model in one conversation. 0 or omitted: 200." unit:"requests" otherwise:"200"`
	ConversationTokens int64    `json:"conversation_tokens,omitempty" minimum:"0" maximum:"1000000000000" doc:"Tokens of one conversation, input and output together. 0 or omitted: no limit." unit:"tokens" otherwise:"no limit"`
	ConversationCost   float64  `json:"conversation_cost,omitempty" minimum:"0" maximum:"1000000000" doc:"The maximum cost of one conversation, in the currency of the model's prices. It requires these prices. 0 or omitted: no limit." unit:"the currency of the prices" otherwise:"no limit"`
	ConversationTime   Duration `json:"conversation_time,omitempty" doc:"The maximum time from the start of a conversation to its end, such as 72h. The time that people take is included. 0s or omitted: no limit." otherwise:"no limit"`
}

// DefaultPending is the limit of pending calls for one principal, unless the agent has its own.
const DefaultPending = 100

// DefaultConversationTurns is the limit of requests to the model in one conversation, unless the agent has its own.
const DefaultConversationTurns = 200

const (
	maxCallsPerMinute     = 1_000_000
	maxConcurrency        = 100_000
	maxPending            = 100_000
	maxConversationTurns  = 100_000
	maxConversationTokens = 1_000_000_000_000
	maxConversationCost   = 1_000_000_000
	minConversationTime   = time.Second
	maxConversationTime   = 10 * 365 * 24 * time.Hour
)

// PendingCalls returns the limit of pending calls for one principal.
func (l Limits) PendingCalls() int {
	if l.Pending == 0 {
		return DefaultPending
	}
	return l.Pending
}

// Turns returns the limit of requests to the model in one conversation.
func (l Limits) Turns() int {
	if l.ConversationTurns == 0 {
		return DefaultConversationTurns
	}
	return l.ConversationTurns
}

// normalizeLimits returns no limits for nil.
func normalizeLimits(l *Limits) Limits {
	if l == nil {
		return Limits{}
	}
	return *l
}

func (l Limits) validate(r report) {
	r.checkNumber("calls_per_minute", int64(l.CallsPerMinute), maxCallsPerMinute, "no limit")
	r.checkNumber("concurrency", int64(l.Concurrency), maxConcurrency, "no limit")
	r.checkNumber("pending", int64(l.Pending), maxPending, fmt.Sprintf("the default, %d", DefaultPending))
	r.checkNumber("conversation_turns", int64(l.ConversationTurns), maxConversationTurns, fmt.Sprintf("the default, %d", DefaultConversationTurns))
	r.checkNumber("conversation_tokens", l.ConversationTokens, maxConversationTokens, "no limit")
	r.checkAmount("conversation_cost", l.ConversationCost, maxConversationCost, "no limit")
	r.checkOptionalDuration("conversation_time", time.Duration(l.ConversationTime), minConversationTime, maxConversationTime, "no limit")
}

// checkNumber checks a whole number. zero names the meaning of 0.
func (r report) checkNumber(field string, n, high int64, zero string) {
	r.check(n >= 0 && n <= high, field, fmt.Sprintf("must be between 1 and %d, or 0 for %s", high, zero))
}

// checkAmount checks an amount of money. It refuses NaN.
func (r report) checkAmount(field string, x, high float64, zero string) {
	r.check(x >= 0 && x <= high, field, fmt.Sprintf("must be between 0 and %s; 0 is %s", formatDecimal(high), zero))
}

func listLimits(l Limits) []field {
	var list fieldList
	addNonZero(&list, "limits.calls_per_minute", l.CallsPerMinute, strconv.Itoa)
	addNonZero(&list, "limits.concurrency", l.Concurrency, strconv.Itoa)
	addNonZero(&list, "limits.pending", l.Pending, strconv.Itoa)
	addNonZero(&list, "limits.conversation_turns", l.ConversationTurns, strconv.Itoa)
	addNonZero(&list, "limits.conversation_tokens", l.ConversationTokens, func(n int64) string { return strconv.FormatInt(n, 10) })
	addNonZero(&list, "limits.conversation_cost", l.ConversationCost, formatDecimal)
	addNonZero(&list, "limits.conversation_time", l.ConversationTime, Duration.String)
	return list
}

// formatDecimal formats a number without an exponent.
func formatDecimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
