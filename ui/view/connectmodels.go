package view

import "time"

// Connections is a page of connections.
type Connections struct {
	List   []Connection
	Next   string // URL of the next page; empty: none
	Newest bool   // this is the first page
}

// Connection is how Holdpoint is authorized to a skill's server, or could be.
type Connection struct {
	URL      string // empty: there is none yet
	Skill    string
	SkillURL string
	Shared   bool
	Own      bool   // the reader's
	Whose    string // a person, unless Shared
	Status   Badge
	Words    string     // where it stands
	Until    *time.Time // said between Words and After
	After    string
	Reason   string    // why something has to be done; from outside
	Who      *Resolver // who can do it; nil: nothing has to be done
	Error    string    // of the last attempt; from outside
	ErrorAt  *time.Time
	Facts    []Fact
	Connect  *Connect // nil: the reader cannot
	// Disconnect is where to send that; empty: the reader cannot.
	Disconnect string
	Confirm    bool // the second step of it
	Waiting    []Wait
}

// Connect is the form that begins to connect.
type Connect struct {
	URL     string
	Label   string
	Primary bool
	Issuers []string // authorization servers to choose from; empty: there is no choice
}

// Resolver is who can do what a call or connection waits for: Before, Name and After make one sentence.
type Resolver struct {
	Before string
	Name   string // a person's
	After  string
	URL    string // where the reader can do it; empty: they cannot
	Label  string // of the link there
}

// Wait is a call that waits for somebody to connect its skill.
type Wait struct {
	ID        string
	URL       string
	Skill     string
	Tool      string
	Agent     string
	Principal string
	Reason    string // from outside
	Who       Resolver
	Countdown *Countdown
}

// Leave is where a person goes to connect a skill.
type Leave struct {
	Skill     string
	Own       bool   // to an account of their own
	URL       string // the authorization request: http or https
	Origin    string // of it
	Plain     bool   // it is not encrypted
	Issuer    string // the authorization server, which gets what comes back
	Elsewhere bool   // its origin is another one
	Scopes    string
	Resource  string
	Back      string
}
