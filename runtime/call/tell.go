package call

import (
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The texts for models about their calls. Text from outside (reasons, causes) is bounded and quoted, with invisible characters made
// visible.

const (
	maxShown  = 200  // characters of a name or a value
	maxReason = 2000 // characters of a reviewer's reason or a server's complaint
	maxList   = 8000 // characters of a list of failing paths
	maxEdited = 8000 // characters of arguments that a reviewer edited
)

const (
	effectPossible = "It may have been executed. Do not repeat it blindly: find out first what it did."
	effectNone     = "It was not executed."
)

// Explain returns a text for models about the end of a call without a result.
func (c *Call) Explain() string {
	if c.ContentDeletedAt != nil && c.Status == Succeeded {
		return "This call was executed once and succeeded. Its result was deleted at " + c.ContentDeletedAt.UTC().Format(time.RFC3339) +
			" and cannot be given again. The call was not sent another time."
	}
	switch c.Status {
	case Rejected:
		return "This call was rejected by a reviewer and not executed. Do not repeat it unchanged; try something else." +
			quoteCause("Reason", c.Message)
	case Expired:
		if c.Message == MessageUnconnected {
			return "The account that this call needs was not connected in time. It was not executed. " +
				"Say that the skill has to be connected before you try again."
		}
		if c.Code == CodeApprovalLapsed {
			return "This call was approved, but could not be sent in time, and the approval lapsed. It was not executed. " +
				"You may make the call again; it needs a new approval."
		}
		if c.Code == CodeNoReviewer {
			return "No reviewer may decide this call, so it expired. It was not executed. " +
				"Say that an operator has to appoint a reviewer, and do not try again before that."
		}
		return "No reviewer decided this call in time. It was not executed. " +
			"Do not take this for a rejection; say that an approval is needed before you try again."
	case Cancelled:
		return "This call was cancelled before it was sent. It was not executed." + quoteCause("Note", c.Message)
	case Denied:
		return "This call was denied and not executed. " + denialWords(c.Code) + quoteCause("Cause", c.Message)
	case Invalid:
		return "The arguments of this call are not valid. It was not executed. Correct these and call again:\n" + plain.Visible(c.Message, maxList)
	case Unknown:
		text := "The outcome of this call is unknown. " + effectPossible + quoteCause("What is known", c.Message)
		if r := c.Resolution; r != nil {
			text += " An operator recorded the outcome: " + plain.Quoted(r.Outcome, maxShown) + quoteCause("Note", r.Note)
		}
		return text
	case Failed:
		return failureWords(c)
	default:
		return "This call ended without a result (" + string(c.Status) + ")." + quoteCause("Note", c.Message)
	}
}

// ExplainEdits returns a text about the arguments that a reviewer edited, with an empty line after it. Empty: no edit.
func (c *Call) ExplainEdits() string {
	if !c.WasEdited() {
		return ""
	}
	return "A reviewer approved this call with other arguments than yours. Do not repeat it with yours. What was sent: " +
		plain.Visible(string(c.Arguments), maxEdited) + "\n\n"
}

// IsRefused reports whether the agent must not make the call again unchanged.
func (c *Call) IsRefused() bool {
	switch c.Code {
	case CodeDefinitionChanged, CodeSkillChanged, CodeReviewerRemoved, CodeCredentialRevoked, CodeFileChanged: // as denialWords says
		return false
	}
	return c.Status == Rejected || c.Status == Denied
}

func denialWords(code string) string {
	switch code {
	case CodeDefinitionChanged:
		return "The tool was changed on its server since the call was made: list the tools again before you call it."
	case CodeAssignmentRevoked:
		return "This agent may no longer use this tool."
	case CodeSkillChanged:
		return "An operator changed the skill since the call was made; you may make the call again."
	case CodePersonBlocked:
		return "A person whom this call depended on was blocked since it was made."
	case CodeReviewerRemoved:
		return "The person who approved this call is no longer a reviewer; you may make the call again."
	case CodeCredentialRevoked:
		return "A credential that this call depended on was revoked since it was made; with a valid one you may make the call again."
	case CodeToolDisabled:
		return "This tool is switched off."
	case CodeFileChanged:
		return "An attached file was changed or deleted: upload it again before you call again."
	default:
		return "Do not repeat it unchanged."
	}
}

func failureWords(c *Call) string {
	effect := effectNone
	if c.Effect == tool.EffectPossible {
		effect = effectPossible
	}
	switch c.Failure {
	case tool.JSONRPCError:
		if c.Code == CodeTaskCancelled {
			return "The tool's server cancelled the call after it had begun, so its outcome is unknown. " + effectPossible + quoteCause("Cause", c.Message)
		}
		return "The call failed with an error." + quoteCause("Cause", c.Message)
	case tool.TransportFailure:
		return "The tool's server could not be reached, or did not answer. " + effect + quoteCause("Cause", c.Message)
	case tool.ProtocolFailure:
		return "The tool's server gave an answer that cannot be used. " + effect + quoteCause("Cause", c.Message)
	case tool.SessionInvalid:
		return "The tool's server refused the session. " + effect + quoteCause("Cause", c.Message)
	default:
		return "The tool failed. " + effect + quoteCause("Cause", c.Message)
	}
}

func quoteCause(label, text string) string {
	if text == "" {
		return ""
	}
	return " " + label + ": " + plain.Quoted(text, maxReason)
}
