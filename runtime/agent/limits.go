package agent

import (
	"fmt"
	"strconv"
	"time"
)

// Limits bound what an agent may take: those of its clients' requests all together and over all processes, those of
// conversations that Holdpoint runs itself each of them. The zero value is no limit, but see Pending and ConversationTurns.
type Limits struct {
	CallsPerMinute int `json:"calls_per_minute,omitempty" minimum:"0" maximum:"1000000" doc:"Requests that reach skills' servers, a minute; 0 or left out: no limit."`
	Concurrency    int `json:"concurrency,omitempty" minimum:"0" maximum:"100000" doc:"Such requests that are being answered at one time; 0 or left out: no limit."`

	Pending int `json:"pending,omitempty" minimum:"0" maximum:"100000" doc:"Calls made for one person, or for nobody, that wait for a decision or a connection; 0 or left out: 100. An agent has at most 1,000 in all, or as many as this says if it is more."`

	ConversationTurns  int      `json:"conversation_turns,omitempty" minimum:"0" maximum:"100000" doc:"Requests to the model in one conversation; 0 or left out: 200."`
	ConversationTokens int64    `json:"conversation_tokens,omitempty" minimum:"0" maximum:"1000000000000" doc:"Tokens of one conversation, those of requests and answers together; 0 or left out: no limit."`
	ConversationCost   float64  `json:"conversation_cost,omitempty" minimum:"0" maximum:"1000000000" doc:"What one conversation may cost, in the currency of the model's prices, which it needs; 0 or left out: no limit."`
	ConversationTime   Duration `json:"conversation_time,omitempty" doc:"From a conversation's start to its end, people's thinking included: 72h; 0s or left out: no limit."`
}

// DefaultPending is how many calls for one principal may wait for people whose agent's limits do not say.
const DefaultPending = 100

// DefaultConversationTurns is how many requests to the model a conversation may make whose agent's limits do not say.
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

// PendingCalls is how many calls for one principal may wait for people.
func (l Limits) PendingCalls() int {
	if l.Pending == 0 {
		return DefaultPending
	}
	return l.Pending
}

// Turns is how many requests to the model one conversation may make.
func (l Limits) Turns() int {
	if l.ConversationTurns == 0 {
		return DefaultConversationTurns
	}
	return l.ConversationTurns
}

func (l Limits) validate(r report) {
	r.number("calls_per_minute", int64(l.CallsPerMinute), maxCallsPerMinute, "no limit")
	r.number("concurrency", int64(l.Concurrency), maxConcurrency, "no limit")
	r.number("pending", int64(l.Pending), maxPending, fmt.Sprintf("the default, %d", DefaultPending))
	r.number("conversation_turns", int64(l.ConversationTurns), maxConversationTurns, fmt.Sprintf("the default, %d", DefaultConversationTurns))
	r.number("conversation_tokens", l.ConversationTokens, maxConversationTokens, "no limit")
	r.amount("conversation_cost", l.ConversationCost, maxConversationCost, "no limit")
	if d := time.Duration(l.ConversationTime); d != 0 {
		r.check(d >= minConversationTime && d <= maxConversationTime, "conversation_time",
			fmt.Sprintf("must be between %s and %s, or 0s for no limit", Duration(minConversationTime), Duration(maxConversationTime)))
	}
}

// number checks a whole number whose zero has a meaning of its own.
func (r report) number(field string, n, high int64, zero string) {
	r.check(n >= 0 && n <= high, field, fmt.Sprintf("must be between 1 and %d, or 0 for %s", high, zero))
}

// amount likewise checks an amount of money. NaN is none.
func (r report) amount(field string, x, high float64, zero string) {
	r.check(x >= 0 && x <= high, field, fmt.Sprintf("must be between 0 and %s, and 0 is for %s", decimal(high), zero))
}

func (l Limits) fields() []field {
	var list []field
	add := func(name, value string, set bool) {
		if set {
			list = append(list, field{name: "limits." + name, value: value})
		}
	}
	add("calls_per_minute", strconv.Itoa(l.CallsPerMinute), l.CallsPerMinute != 0)
	add("concurrency", strconv.Itoa(l.Concurrency), l.Concurrency != 0)
	add("pending", strconv.Itoa(l.Pending), l.Pending != 0)
	add("conversation_turns", strconv.Itoa(l.ConversationTurns), l.ConversationTurns != 0)
	add("conversation_tokens", strconv.FormatInt(l.ConversationTokens, 10), l.ConversationTokens != 0)
	add("conversation_cost", decimal(l.ConversationCost), l.ConversationCost != 0)
	add("conversation_time", l.ConversationTime.String(), l.ConversationTime != 0)
	return list
}

// decimal writes a number as people do.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
