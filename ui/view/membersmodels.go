package view

import "time"

// Members is a page of people.
type Members struct {
	Rows   []MemberRow
	Text   string // that was searched for
	Next   string // URL of the next page; empty: none
	Newest bool   // this is the first page
	New    NewInvitation

	Invitations []InvitationRow
}

// InvitationRow is an invitation that nobody redeemed yet.
type InvitationRow struct {
	ID, Name, For, Issuer, Roles, By string
	Ends                             time.Time
}

// NewInvitation is the form that makes an invitation.
type NewInvitation struct {
	Name               string
	Account            string   // e-mail address or subject
	Issuer             string   // chosen
	Issuers            []string // to choose from; empty: nobody vouches for people
	Reviewer, Operator bool
	Agents             string // with commas
	Known              string // URL of somebody who has the name
	Error              string
}

// MadeInvitation is an invitation that was just made: its link is shown this once.
type MadeInvitation struct {
	Name, Link string
	Ends       time.Time
	Verified   bool // an identity provider vouches for the person
}

// MemberRow is a person in the list.
type MemberRow struct {
	URL        string
	State      Badge
	Name       string
	Issuer     string
	Subject    string
	Roles      string
	Teams      string
	Sessions   int
	Tokens     int
	SignedInAt *time.Time
	Notes      []Badge
}

// Member is one person, with all that an operator can do about them.
type Member struct {
	URL      string
	Notice   *Notice
	Notes    []Badge
	State    Badge
	Name     string
	Self     bool // the reader
	Facts    []Fact
	Claimed  []Fact // what the groups of their provider give them
	Grant    Grant
	Sessions []Session
	Tokens   []TokenRow
	New      NewToken
	Same     Same
	Blocked  bool
	Confirm  bool // the second step of blocking
}

// Grant is the form of what operators give somebody.
type Grant struct {
	Reviewer, Operator bool
	Teams              string   // with commas
	WasRoles, WasTeams []string // as they are shown: the form says what it is about
	Error              string
}

// TokenRow is a personal token, without its secret.
type TokenRow struct {
	ID      string
	Hint    string
	Roles   string
	Agents  string
	Created time.Time
	Ends    time.Time

	EndsSoon bool
}

// NewToken is the form that makes a personal token.
type NewToken struct {
	Action             string
	Reviewer, Operator bool
	Agents             string // with commas
	Error              string
}

// Same is whom somebody was declared to be the same as.
type Same struct {
	Name  string // of the other; empty: nobody
	URL   string
	Typed string // an id
	Error string
}

// MadeToken is a token that was just made: its secret is shown this once.
type MadeToken struct {
	Name   string
	Secret string
	URL    string // where to go on
	Ends   time.Time
}
