package agents

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Agents is a page of agents.
type Agents struct {
	Rows    []AgentRow
	Next    string
	Newest  bool
	MayEdit bool
}

// AgentRow is one agent in the list.
type AgentRow struct {
	URL    string
	Name   string
	Team   string
	Keys   view.Badge
	Skills text.Message // their names
	At     time.Time
}

// Agent is one agent.
type Agent struct {
	URL           string
	Name          string
	Notice        *view.Notice
	Team          string
	EscalateTo    string
	MayEdit       bool
	Connect       HowToConnect
	Uses          []view.Use
	Assignable    []string // names of skills that it does not have
	Seen          []Seen
	Problems      []SeenProblem
	Keys          []Key
	Callbacks     []CallbackRow
	Instructions  *hostile.Value // nil: none
	Facts         []view.Fact
	Calls         []view.HistoryRow // the latest
	CallsURL      string
	Conversations string // URL
	Start         string // where to start a conversation with it; empty: the reader may not
}

// HowToConnect is how a client reaches an agent's endpoint.
type HowToConnect struct {
	Endpoint string
	Command  string // for a terminal
	Config   string // for a client's settings
	Keyless  bool   // $KEY stands for a key
}

// Seen is a tool as an agent sees it.
type Seen struct {
	Name  string
	Skill string
	Tool  string
	URL   string
}

// SeenProblem is the reason why tools of a skill are missing.
type SeenProblem struct {
	Skill string
	Error string // from outside
}

// Key is an agent's key.
type Key struct {
	Hint    string
	Created time.Time
	By      string     // name of its creator; empty: unknown
	Ends    *time.Time // nil: when it is revoked
	Expired bool
	Revoked *time.Time
	Revoke  string // URL; empty: the reader cannot
}

// NewKey is a new key, which is shown only once.
type NewKey struct {
	Agent   string
	URL     string // of the agent's page
	Key     string
	Connect HowToConnect
}
