// Package wire owns the protocol between an OAuth client and the servers that a skill's server names: challenges, metadata documents,
// token and revocation requests, and the JWTs that keys sign.
//
// It does not own connections, grants or registered clients, which package oauthclient stores. It stores nothing and knows no database.
package wire
