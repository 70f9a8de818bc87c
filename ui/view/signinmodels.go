package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// SignIn is the sign-in page. With a Link it asks for one click. Otherwise it offers all ways to sign in.
type SignIn struct {
	Link      string // the secret of a one-time link
	Next      string
	Error     text.Message
	SignedIn  string // the name of the person who is signed in already
	Providers []SignInProvider
}

// SignInProvider is an identity provider that people can sign in with.
type SignInProvider struct {
	Name string
	URL  string // of the first step
	Down bool   // unreachable at the last attempt
}

// Invited is an invitation that can be redeemed.
type Invited struct {
	Name     string
	Roles    text.Message
	Key      string          // its secret; empty: the provider's sign-in redeems it
	Provider *SignInProvider // must confirm the person; nil: not needed
	Account  string          // that the provider must confirm
}

// SignInAgain asks a person who is signed in to prove their identity.
type SignInAgain struct {
	Name     string
	Next     string
	Error    text.Message
	Provider *SignInProvider // nil: by token
}

// SignInRefused says why a person was not signed in.
type SignInRefused struct {
	Title text.Message
	Text  text.Message
	Said  string // by an identity provider; from outside
	Name  string // of the person
	Facts []Fact // about them
	Next  string
}
