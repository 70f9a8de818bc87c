package admin

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Members is a page of people.
type Members struct {
	Rows   []MemberRow
	Text   string // searched for
	Next   string // URL of the next page; empty: none
	Newest bool   // this is the first page
	New    NewInvitation

	Invitations []InvitationRow
}

// InvitationRow is an open invitation.
type InvitationRow struct {
	ID, Name, For, Issuer, By string
	Roles                     text.Message
	Ends                      time.Time
}

// NewInvitation is the form that makes an invitation.
type NewInvitation struct {
	Name               string
	Account            string   // e-mail address or subject
	Issuer             string   // chosen
	Issuers            []string // to choose from; empty: no provider verifies people
	Reviewer, Operator bool
	Agents             string // with commas
	Limit              Limit
	Known              string // URL of the member who has the name
	Error              text.Message
}

// MadeInvitation is a new invitation: its link is shown only once.
type MadeInvitation struct {
	Name, Link string
	Ends       time.Time
	Verified   bool // an identity provider verifies the person
	Waits      bool // for a second operator
}

// MemberRow is a person in the list.
type MemberRow struct {
	URL        string
	State      view.Badge
	Name       string
	Issuer     string
	Subject    string
	Roles      text.Message
	Teams      string
	Sessions   int
	Tokens     int
	SignedInAt *time.Time
	Notes      []view.Badge
}

// Member is a person with everything that an operator can change.
type Member struct {
	URL      string
	Notice   *view.Notice
	Notes    []view.Badge
	State    view.Badge
	Name     string
	Self     bool // the reader
	Facts    []view.Fact
	Claimed  []view.Fact // from the groups of their provider
	Grant    Grant
	Sessions []Session
	Tokens   []TokenRow
	New      NewToken
	Same     Same
	Blocked  bool
	Confirm  bool // the second step of blocking
}

// Grant is the form of the roles and teams that operators grant.
type Grant struct {
	Reviewer, Operator bool
	Teams              string // with commas
	Limit              Limit
	WasRoles, WasTeams []string // when the form was shown
	Error              text.Message
}

// Limit is the part of a form with the calls that a reviewer may decide, each list with commas.
type Limit struct{ Teams, Skills, Agents string }

func (l Limit) isSet() bool { return l != Limit{} }

// TokenRow is a personal token, without its secret.
type TokenRow struct {
	ID      string
	Hint    string
	Roles   text.Message
	Agents  text.Message
	Created time.Time
	Ends    time.Time

	EndsSoon bool
}

// NewToken is the form that makes a personal token.
type NewToken struct {
	Action             string
	Reviewer, Operator bool
	Agents             string // with commas
	Error              text.Message
}

// Same is the linked identity of a person.
type Same struct {
	Name  string // of the other; empty: none
	URL   string
	Typed string // an id
	Error text.Message
}
