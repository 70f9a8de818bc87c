package agents

import (
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// endpointForm is the part of the form about an agent's endpoint. An empty field has no value.
type endpointForm struct {
	errorStyle, pendingAs, replyTimeout, callsPerMinute, concurrency, pending string
	plans                                                                     bool
}

func formOfEndpoint(a *agent.Agent) endpointForm {
	return endpointForm{
		errorStyle: a.ErrorStyle, pendingAs: a.PendingAs, replyTimeout: present.OptionalDurationWords(a.ReplyTimeout), callsPerMinute: formatNumber(a.Limits.CallsPerMinute), concurrency: formatNumber(a.Limits.Concurrency),
		pending: formatNumber(a.Limits.Pending), plans: a.Plans,
	}
}

func readEndpointForm(r *http.Request) endpointForm {
	return endpointForm{
		errorStyle: shell.Line(r, "error_style"), pendingAs: shell.Line(r, "pending_as"), replyTimeout: shell.Line(r, "reply_timeout"),
		callsPerMinute: shell.Line(r, "limits.calls_per_minute"), concurrency: shell.Line(r, "limits.concurrency"),
		pending: shell.Line(r, "limits.pending"), plans: shell.Ticked(r, "plans"),
	}
}

// usualEndpoint is the form of an agent without settings of its own.
func usualEndpoint() endpointForm {
	return endpointForm{errorStyle: agent.ErrorStyleMCP, pendingAs: agent.PendingAsError}
}

func (f *endpointForm) part() view.FormPart {
	return view.FormPart{Title: text.AgentEndpoint(), Folded: *f == usualEndpoint(), Words: text.AgentEndpointLead(), Fields: []view.Field{
		{
			Name: "error_style", Label: text.AgentErrors(), Kind: view.FieldSelect, Value: f.errorStyle, Required: true,
			Choices: []view.Choice{
				{Value: agent.ErrorStyleMCP, Word: text.AgentErrorsMCP()}, {Value: agent.ErrorStyleCodes, Word: text.AgentErrorsCodes()},
			},
		},
		{
			Name: "pending_as", Label: text.AgentPendingAs(), Kind: view.FieldSelect, Value: f.pendingAs, Required: true, Hint: text.AgentPendingAsHint(),
			Choices: []view.Choice{
				{Value: agent.PendingAsError, Word: text.AgentPendingAsError()}, {Value: agent.PendingAsResult, Word: text.AgentPendingAsResult()},
			},
		},
		{
			Name: "reply_timeout", Label: text.AgentReplyTimeout(), Kind: view.FieldLine, Value: f.replyTimeout, Code: true, Example: "60s",
			Hint: text.AgentReplyTimeoutHint(),
		},
		{
			Name: "limits.calls_per_minute", Label: text.AgentCallsPerMinute(), Kind: view.FieldLine, Value: f.callsPerMinute, Code: true,
			Hint: text.AgentCallsPerMinuteHint(),
		},
		{
			Name: "limits.concurrency", Label: text.AgentConcurrency(), Kind: view.FieldLine, Value: f.concurrency, Code: true,
			Hint: text.AgentConcurrencyHint(),
		},
		{
			Name: "limits.pending", Label: text.AgentPendingCalls(), Kind: view.FieldLine, Value: f.pending, Code: true,
			Hint: text.AgentPendingHint(),
		},
		{Name: "plans", Label: text.AgentPlans(), Kind: view.FieldCheck, On: f.plans, Hint: text.AgentPlansHint()},
	}}
}

func (f *endpointForm) limits(wrong *shell.Faults) *agent.Limits {
	return &agent.Limits{
		CallsPerMinute: wrong.Number("limits.calls_per_minute", f.callsPerMinute),
		Concurrency:    wrong.Number("limits.concurrency", f.concurrency),
		Pending:        wrong.Number("limits.pending", f.pending),
	}
}
