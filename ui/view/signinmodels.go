package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// SignIn is the sign-in page. With a Link it asks for one click, else it offers what there is.
type SignIn struct {
	Link      string // the secret of a one-time link
	Next      string
	Error     text.Message
	Providers []SignInProvider
}

// SignInProvider is an identity provider that people can sign in with.
type SignInProvider struct {
	Name string
	URL  string // where that begins
	Down bool   // it could not be reached when it was asked last
}

// Invited is an invitation that can be redeemed.
type Invited struct {
	Name, Roles string
	Key         string          // its secret; empty: the provider's sign-in redeems it
	Provider    *SignInProvider // that has to vouch for the person; nil: nobody does
	Account     string          // whom it has to vouch for
}

// SignInAgain asks somebody who is signed in to prove who they are.
type SignInAgain struct {
	Name     string
	Next     string
	Error    text.Message
	Provider *SignInProvider // nil: by token
}

// SignInRefused says why somebody was not signed in.
type SignInRefused struct {
	Title text.Message
	Text  text.Message
	Said  string // by an identity provider; from outside
	Name  string // of who came
	Facts []Fact // about them
	Next  string
}
