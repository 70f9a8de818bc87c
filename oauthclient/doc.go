// Package oauthclient authorizes Holdpoint to protected skill servers. It owns connections, registration of clients, consent, and the
// renewal and revocation of tokens (tables oauth_connections, oauth_clients, oauth_flows, oauth_keys and oauth_revocations). Package wire
// speaks the protocol. It does not own skills, sessions with their servers, or calls.
//
// It is the client side of MCP's authorization, in all revisions of the protocol:
//
//   - OAuth 2.1 (RFC 6749 as amended) with PKCE (RFC 7636) and the issuer in authorization responses (RFC 9207)
//   - protected resource metadata (RFC 9728), authorization server metadata (RFC 8414, OpenID Connect Discovery)
//   - resource indicators (RFC 8707)
//   - Client ID Metadata Documents and dynamic registration (RFC 7591)
//   - JWT client authentication and JWT grants (RFC 7523), token exchange (RFC 8693)
//   - DPoP (RFC 9449), revocation (RFC 7009)
//
// [Handler] signs requests and reacts to refusals. [Service.Begin] and [Service.Callback] let a person connect.
//
// # Tokens
//
// A connection belongs to a skill, or to a skill and a person. Its token was issued by one authorization server for one
// resource. [Handler.Sign] puts it on requests to that resource only, and never on a request that follows a redirect.
//
// # Trust
//
// The package trusts the operator, who configured the skill's URL. It checks everything that the skill's server or an
// authorization server says: URLs must be https and resolve to public addresses, except for the skill's own host and
// trusted hosts; documents are bounded; texts are escaped.
//
// # Renewal
//
// Tokens are renewed under the lock of the connection's row, so that only one process uses a refresh token, and the new
// tokens are stored before they are used. Within a process, callers that need the same connection share one attempt,
// which continues when they leave.
package oauthclient
