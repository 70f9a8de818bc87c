package ui

import (
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/view"
)

// endpointForm is what a form says of an agent's endpoint. An empty field is what has no value.
type endpointForm struct {
	errorStyle, replyTimeout, callsPerMinute, concurrency, pending string
}

func formOfEndpoint(a *agent.Agent) endpointForm {
	f := endpointForm{
		errorStyle: a.ErrorStyle, callsPerMinute: numberWords(a.Limits.CallsPerMinute), concurrency: numberWords(a.Limits.Concurrency),
		pending: numberWords(a.Limits.Pending),
	}
	if a.ReplyTimeoutSet != 0 {
		f.replyTimeout = durationWords(a.ReplyTimeoutSet)
	}
	return f
}

func readEndpointForm(r *http.Request) endpointForm {
	return endpointForm{
		errorStyle: line(r, "error_style"), replyTimeout: line(r, "reply_timeout"),
		callsPerMinute: line(r, "limits.calls_per_minute"), concurrency: line(r, "limits.concurrency"),
		pending: line(r, "limits.pending"),
	}
}

func (f *endpointForm) part() view.FormPart {
	usual := *f == endpointForm{errorStyle: agent.ErrorStyleMCP}
	return view.FormPart{Title: "Endpoint", Folded: usual, Words: "How it answers its clients, and how much it takes from them.", Fields: []view.Field{
		{
			Name: "error_style", Label: "Errors", Kind: view.FieldSelect, Value: f.errorStyle, Required: true,
			Choices: []view.Choice{
				{Value: agent.ErrorStyleMCP, Word: "As MCP says"}, {Value: agent.ErrorStyleCodes, Word: "JSON-RPC codes of older gateways"},
			},
		},
		{
			Name: "reply_timeout", Label: "A reply may take", Kind: view.FieldLine, Value: f.replyTimeout, Code: true, Example: "60s",
			Hint: "After it the client gets error -32003; the call goes on. Left out: as long as it takes, or 60s with the codes of older gateways.",
		},
		{
			Name: "limits.calls_per_minute", Label: "Calls per minute", Kind: view.FieldLine, Value: f.callsPerMinute, Code: true,
			Hint: "How many requests that reach skills’ servers its clients may make a minute, all together. Left out: no limit.",
		},
		{
			Name: "limits.concurrency", Label: "Calls at one time", Kind: view.FieldLine, Value: f.concurrency, Code: true,
			Hint: "How many of these may be under way at one time. Left out: no limit.",
		},
		{
			Name: "limits.pending", Label: "Pending calls", Kind: view.FieldLine, Value: f.pending, Code: true,
			Hint: "How many calls made for one person may wait for a decision or a connection. Left out: 100.",
		},
	}}
}

func (f *endpointForm) replyTimeoutOf(wrong *faults) *agent.Duration {
	if f.replyTimeout == "" {
		return new(agent.Duration(0))
	}
	return wrong.duration("reply_timeout", f.replyTimeout)
}

func (f *endpointForm) limits(wrong *faults) *agent.Limits {
	return &agent.Limits{
		CallsPerMinute: wrong.number("limits.calls_per_minute", f.callsPerMinute),
		Concurrency:    wrong.number("limits.concurrency", f.concurrency),
		Pending:        wrong.number("limits.pending", f.pending),
	}
}
