package connections

import (
	"time"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

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
	Status   view.Badge
	State    templ.Component // a sentence
	Reason   string          // why something has to be done; from outside
	Who      *view.Resolver  // who can do it; nil: nothing has to be done
	Error    string          // of the last attempt; from outside
	ErrorAt  *time.Time
	Facts    []view.Fact
	Connect  *Connect // nil: the reader cannot
	Waiting  []view.Wait

	Disconnect string // URL of the form; empty: the reader cannot
	Confirm    bool   // the second step of disconnecting
}

// Connect is the form that begins to connect.
type Connect struct {
	URL     string
	Label   text.Message
	Primary bool
	Issuers []string // authorization servers to choose from; empty: there is no choice
}

// Leave is where a person goes to connect a skill.
type Leave struct {
	Skill     string
	Own       bool   // to an account of their own
	URL       string // the authorization request: http or https
	Origin    string // of it
	Plain     bool   // it is not encrypted
	Issuer    string // the authorization server, which gets the response
	Elsewhere bool   // its origin is another one
	Scopes    string
	Resource  string
	Back      string
}
