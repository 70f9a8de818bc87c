package present

import (
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/text"
)

// DescribeResolution names the outcome that an operator recorded for a call.
func DescribeResolution(outcome string) text.Message {
	if outcome == call.ResolvedSucceeded {
		return text.CallExecuted()
	}
	return text.CallNotExecuted()
}

// DescribeOutcome says how a call ended and whether it was executed.
func DescribeOutcome(c *call.Call) text.Message {
	if c.GateOnly {
		if words, ok := describeReleased(c); ok {
			return words
		}
	}
	switch c.Status {
	case call.Approved:
		return text.CallWillBeSent()
	case call.Executing:
		return text.CallAwaitingReply()
	case call.Succeeded:
		return text.CallAnswered()
	case call.Unknown:
		return text.CallOutcomeUnknown()
	case call.Denied:
		return text.CallNotSent(describeDenial(c.Code))
	case call.Invalid:
		if c.Code == call.CodeTooComplex {
			return text.CallNotSent(text.CallTooComplex())
		}
		return text.CallNotSent(text.CallDoesNotFit())
	case call.Expired:
		if c.Code == call.CodeApprovalLapsed {
			return text.CallNotSent(text.CallApprovalLapsed())
		}
		return text.CallNotSent(text.CallNotConnectedInTime())
	case call.Cancelled:
		return text.CallNotSent(text.CallCancelledBefore())
	case call.Failed:
		failure := describeFailure(c.Failure)
		switch {
		case c.Effect == tool.EffectPossible:
			return text.Join(" ", failure, text.CallMayBeExecuted())
		case c.Failure == tool.TransportFailure, c.Failure == tool.SessionInvalid:
			return text.Join(" ", failure, text.CallNothingExecuted())
		}
		return failure
	default:
		return text.Message{}
	}
}

// describeReleased describes a gate-only call that is or may be released. It reports false for others.
func describeReleased(c *call.Call) (text.Message, bool) {
	switch {
	case c.Status == call.Approved:
		return text.GateWillBeReleased(), true
	case c.Status == call.Executing:
		return text.GateReleased(), true
	case c.Status == call.Succeeded:
		return text.GateSucceeded(), true
	case c.Status == call.Unknown && c.Code == call.CodeNotReported:
		return text.GateNotReported(), true
	case c.Status == call.Failed && c.Code == call.CodeNotRun:
		return text.GateNotRun(), true
	case c.Status == call.Failed && c.Failure == tool.ToolError:
		return text.GateFailed(), true
	}
	return text.Message{}, false
}

// ExecutedBy names the program that executes a gate-only call, as its caller or an operator says. Empty: not known.
func ExecutedBy(c *call.Call) string { return plain.Visible(c.Host, maxHost) }

const maxHost = 40

func describeFailure(kind tool.FailureKind) text.Message {
	switch kind {
	case tool.ToolError:
		return text.CallToolError()
	case tool.JSONRPCError:
		return text.CallJSONRPCError()
	case tool.TransportFailure:
		return text.CallTransportFailure()
	case tool.ProtocolFailure:
		return text.CallProtocolFailure()
	case tool.SessionInvalid:
		return text.CallSessionInvalid()
	}
	return text.CallOtherFailure()
}

func describeDenial(code string) text.Message {
	switch code {
	case call.CodeDefinitionChanged:
		return text.CallDefinitionChanged()
	case call.CodeAssignmentRevoked:
		return text.CallAssignmentRevoked()
	case call.CodeSkillChanged:
		return text.CallSkillChanged()
	case call.CodeToolDisabled:
		return text.CallToolDisabled()
	case call.CodeNoPrincipal:
		return text.CallNoPrincipal()
	case call.CodeEnvelopeChanged:
		return text.CallEnvelopeChanged()
	case call.CodePersonBlocked:
		return text.CallPersonBlocked()
	case call.CodeReviewerRemoved:
		return text.CallReviewerRemoved()
	case call.CodeCredentialRevoked:
		return text.CallCredentialRevoked()
	case call.CodeFileChanged:
		return text.CallFileChanged()
	}
	return text.Literal(code)
}
