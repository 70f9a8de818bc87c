package wire

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// TasksExtension is the extension by which a call may be answered with a task (SEP-2663).
const TasksExtension = "io.modelcontextprotocol/tasks"

// Abilities are a client's declared capabilities: of each request since 2026-07-28, of the session before.
type Abilities struct {
	Elicit, Sample, Roots bool // requests of skills' servers that it answers
	Tasks                 bool
}

// ReadAbilities reads a ClientCapabilities object. It also returns the capabilities that skills' servers may use, as JSON; nil: none.
// Unreadable capabilities count as not declared.
func ReadAbilities(raw []byte) (Abilities, json.RawMessage) {
	var declared struct {
		Elicitation json.RawMessage            `json:"elicitation,omitempty"`
		Sampling    json.RawMessage            `json:"sampling,omitempty"`
		Roots       json.RawMessage            `json:"roots,omitempty"`
		Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
	}
	if len(raw) <= len("{}") || json.Unmarshal(raw, &declared) != nil {
		return Abilities{}, nil
	}
	usable := []byte{'{'}
	use := func(name string, value json.RawMessage) bool {
		if !IsObject(value) || !isStorable(value) {
			return false
		}
		usable = rawjson.AppendMember(usable, name, value)
		return true
	}
	var can Abilities
	_, can.Tasks = declared.Extensions[TasksExtension]
	can.Elicit = use("elicitation", declared.Elicitation)
	can.Sample = use("sampling", declared.Sampling)
	can.Roots = use("roots", declared.Roots)
	if !can.AnswersQuestions() {
		return can, nil
	}
	return can, append(usable, '}')
}

// Answers reports whether the client answers requests of this method.
func (can Abilities) Answers(method string) bool {
	switch method {
	case "elicitation/create":
		return can.Elicit
	case "sampling/createMessage":
		return can.Sample
	case "roots/list":
		return can.Roots
	}
	return false
}

// AnswersQuestions reports whether the client answers any requests of skills' servers.
func (can Abilities) AnswersQuestions() bool { return can.Elicit || can.Sample || can.Roots }

// DescribeClient returns the part of a client's description of itself that is stored.
func DescribeClient(info, capabilities []byte) json.RawMessage {
	if info == nil && capabilities == nil {
		return nil
	}
	client := []byte{'{'}
	if info != nil && isStorable(info) {
		client = rawjson.AppendMember(client, "clientInfo", info)
	}
	if capabilities != nil && isStorable(capabilities) {
		client = rawjson.AppendMember(client, "capabilities", capabilities)
	}
	return append(client, '}')
}

// Limits on a client's description of itself.
const (
	maxClientInfo  = 16 << 10 // bytes
	maxClientDepth = 32
)

// hugeNumber matches numbers that PostgreSQL's jsonb may refuse.
var hugeNumber = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{4}`)

// isStorable reports whether hostile JSON may be stored: it is small and shallow, and has no NUL and no huge number.
func isStorable(raw []byte) bool {
	if len(raw) > maxClientInfo || bytes.Contains(raw, []byte(`\u0000`)) || hugeNumber.Match(raw) {
		return false
	}
	depth, deepest := 0, 0
	for _, c := range raw { // brackets in strings count too: it is only a bound
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest <= maxClientDepth
}
