package catalog

import (
	"errors"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Problem says why a skill, or one of its tools, is missing from a conversation.
type Problem struct {
	Skill string `json:"skill"`
	Kind  string `json:"kind"` // a [tool.FailureKind], or one of the kinds below
	Error string `json:"error"`
}

// The kinds of problems that are not failures of a server.
const (
	ProblemCollision    = "collision"      // two tools have the same name
	ProblemTooManyTools = "too_many_tools" // a conversation cannot have more tools
	ProblemToolMissing  = "tool_missing"   // the tool is assigned by name, but the server does not offer it
	ProblemToolSkipped  = "tool_skipped"   // the server offers the tool, but it is not usable
	ProblemNotListed    = "not_listed"     // the server has not been asked for its tools; see [Service.Preview]
	ProblemInternal     = "internal"       // the cause is in Holdpoint

	// ProblemNeedsConnection: a person has to connect the skill. Until then the conversation has the accepted tools.
	ProblemNeedsConnection = tool.ProblemNeedsConnection
	// ProblemNoPrincipal: the skill has one connection per person, and the agent acts for no person.
	ProblemNoPrincipal = "no_principal"
)

// maxMessage bounds the text of a problem, and other texts from outside that are stored, in bytes.
const maxMessage = 500

// errUnanswered means that a skill's server did not answer in time. It is asked in the background.
var errUnanswered = errors.New("no answer to tools/list yet")

// errNoPrincipal is the cause of [ProblemNoPrincipal].
var errNoPrincipal = errors.New("each person has their own connection to this skill, and the agent acts on behalf of no person")

// NewFailureProblem describes the failure of a skill's server.
func NewFailureProblem(skill string, failure *tool.Failure) Problem {
	return newProblem(skill, failure.ProblemKind(), failure.Message)
}

// newProblem makes a problem that PostgreSQL can store, with a bounded message.
func newProblem(skill, kind, message string) Problem {
	return Problem{Skill: skill, Kind: kind, Error: plain.Storable(message, maxMessage)}
}
