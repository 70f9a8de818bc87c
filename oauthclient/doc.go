// Package oauthclient owns how Holdpoint is authorized to protected skill servers:
// challenges, discovery of metadata, registration of clients, grants, tokens
// and their renewal (the tables oauth_connections, oauth_clients, oauth_flows, oauth_keys
// and oauth_revocations). It does not own skills, sessions with their servers, or calls.
//
// It is the client side of MCP's authorization, in both eras of the protocol:
// OAuth 2.1 with PKCE (RFC 7636), protected-resource metadata (RFC 9728),
// authorization-server metadata (RFC 8414, OpenID Connect Discovery), resource
// indicators (RFC 8707), dynamic registration (RFC 7591), client id metadata documents,
// the issuer in authorization responses (RFC 9207), JWT client authentication and
// grants (RFC 7523), token exchange (RFC 8693), DPoP (RFC 9449), revocation (RFC 7009).
//
// # Where a token goes
//
// A connection belongs to one skill, or to one skill and one person. Its token was issued by one
// authorization server for one resource; it is put on requests to that resource only,
// by [Handler.Sign], and on no request that follows a redirect.
//
// # Whom it believes
//
// The operator, who wrote down the skill's URL. What the skill's server, or an
// authorization server, says is hostile until checked: URLs must be https and resolve to public
// addresses, but for the skill's own host and the trusted hosts; documents are bounded;
// nothing is interpreted.
//
// # One renewal at a time
//
// Tokens are renewed under the lock of the connection's row, so that of all processes
// one uses a refresh token, and what it got is stored before it is used. Within a process those who need the
// same connection wait for one attempt, which belongs to nobody: it goes on when they leave.
package oauthclient
