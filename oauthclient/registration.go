package oauthclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// Paths below the public URL.
const (
	// CallbackPath is the path of the redirect URI (RFC 6749 section 3.1.2).
	CallbackPath = "/oauth/callback"
	// MetadataPath is the path of the Client ID Metadata Document.
	MetadataPath = "/oauth/client-metadata.json"
	// KeysPath is the path of Holdpoint's public keys (RFC 7517 section 5).
	KeysPath = "/oauth/jwks.json"
)

// Mount serves the documents that authorization servers fetch: the client metadata and the public keys.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+MetadataPath, func(w http.ResponseWriter, _ *http.Request) {
		document := struct {
			*oauthex.ClientRegistrationMetadata
			ClientID string `json:"client_id"`
		}{s.clients.clientMetadata(wire.AuthNone), s.clients.publicAddress(MetadataPath)}
		writeJSON(w, "public, max-age=3600", document)
	})
	mux.HandleFunc("GET "+KeysPath, func(w http.ResponseWriter, r *http.Request) {
		set, err := s.keys.publicKeys(r.Context())
		if err != nil {
			s.Logger.Error("publish keys", "error", err)
			http.Error(w, "the keys are not available now", http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, fmt.Sprintf("public, max-age=%d", int(keysMaxAge.Seconds())), set)
	})
}

func writeJSON(w http.ResponseWriter, cache string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot be written", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", cache)
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // the client may be gone
}

// registrar finds out as which client Holdpoint uses an authorization server, and registers it there if necessary (table
// oauth_clients).
type registrar struct {
	*Config
	public *url.URL
	keys   *keyring
	sealer *sealer
	fetch  *wire.Fetcher
	slots  *requestSlots
}

// clientMetadata describes Holdpoint as a client (RFC 7591 section 2).
func (reg *registrar) clientMetadata(method string) *oauthex.ClientRegistrationMetadata {
	kind, host := "web", reg.public.Hostname()
	if outbound.IsLoopbackHost(host) {
		kind = "native" // RFC 8252 section 7.3
	}
	return &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{reg.redirectURI()}, TokenEndpointAuthMethod: method,
		GrantTypes: []string{grantCode, grantTypeRefresh}, ResponseTypes: []string{"code"},
		ClientName: "Holdpoint", ClientURI: reg.PublicURL, ApplicationType: kind,
		SoftwareID: "holdpoint",
	}
}

func (reg *registrar) publicAddress(path string) string {
	return strings.TrimSuffix(reg.PublicURL, "/") + path
}

// redirectURI is the same at every authorization server.
func (reg *registrar) redirectURI() string { return reg.publicAddress(CallbackPath) }

// findClient returns the client for an authorization server, by the first way that MCP lists and that works: the client of the
// settings, the Client ID Metadata Document, dynamic registration. If none works, it returns a *[NeedsConnectionError] for an
// operator.
func (reg *registrar) findClient(ctx context.Context, t Target, skillOrigin string, server *wire.Server) (*wire.Client, error) {
	switch {
	case t.Settings.ClientID != "":
		return reg.givenClient(ctx, t, server)
	case t.Settings.needsNoPerson():
		return nil, wire.NewError(wire.StepRegistration, nil, "the grant %s needs a client that is registered with %s: set oauth.client_id",
			t.Settings.grantType(), plain.Line(server.Issuer, 200))
	case server.ClientIDMetadataDocumentSupported && reg.ClientMetadataURL != "":
		return &wire.Client{ID: reg.ClientMetadataURL, Method: wire.AuthNone}, nil
	case server.RegistrationEndpoint != "":
		return reg.registeredClient(ctx, skillOrigin, server)
	}
	return nil, &NeedsConnectionError{
		Need: NeedClient,
		Reason: "the authorization server " + plain.Line(server.Issuer, 200) + " registers no clients by itself: register Holdpoint there, " +
			"with the redirect URI " + reg.redirectURI() + ", and set oauth.client_id",
	}
}

// givenClient returns the client of the settings. It belongs to the authorization server that it was first used with, unless
// the settings name the issuer.
func (reg *registrar) givenClient(ctx context.Context, t Target, server *wire.Server) (*wire.Client, error) {
	if t.Settings.Issuer == "" {
		var other string
		err := reg.Pool.QueryRow(ctx, `SELECT issuer FROM oauth_connections
			WHERE skill_id = $1 AND client_id = $2 AND issuer <> $3 LIMIT 1`, t.SkillID, t.Settings.ClientID, server.Issuer).Scan(&other)
		if err == nil {
			return nil, &NeedsConnectionError{
				Need: NeedSettings,
				Reason: "the skill's server now names the authorization server " + plain.Line(server.Issuer, 200) + ", but the client " +
					plain.Line(t.Settings.ClientID, 200) + " belongs to " + plain.Line(other, 200) + ": if this is right, set oauth.issuer",
			}
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
	}
	c := &wire.Client{ID: t.Settings.ClientID, Secret: t.Settings.ClientSecret, Method: t.Settings.AuthMethod}
	if c.Method == "" {
		c.Method = methodFor(t.Settings, server)
	}
	return c, reg.keys.addSigningKey(ctx, t.Settings, c)
}

// methodFor chooses a client authentication method that the server supports (RFC 8414 section 2).
func methodFor(settings Settings, server *wire.Server) string {
	offered := server.TokenEndpointAuthMethodsSupported
	switch {
	case settings.PrivateKey != "":
		return wire.AuthPrivateKey
	case settings.ClientSecret == "" && slices.Contains(offered, wire.AuthPrivateKey) && settings.Grant == grantClient:
		return wire.AuthPrivateKey
	case settings.ClientSecret == "":
		return wire.AuthNone
	case slices.Contains(offered, wire.AuthPost) && !slices.Contains(offered, wire.AuthBasic):
		return wire.AuthPost
	}
	return wire.AuthBasic // the default
}

// registeredClient returns the client that is registered at an authorization server, and registers one if necessary.
func (reg *registrar) registeredClient(ctx context.Context, skillOrigin string, server *wire.Server) (*wire.Client, error) {
	c, err := reg.storedClient(ctx, reg.Pool, server.Issuer, "")
	if c != nil || err != nil {
		return c, err
	}
	release, err := reg.slots.acquireSlot(ctx, server.Issuer)
	if err != nil {
		return nil, err
	}
	defer release()
	err = postgres.InTx(ctx, reg.Pool, func(tx pgx.Tx) error {
		// One process registers, the others find its client.
		_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_oauth_client ' || $1, 0))`, server.Issuer)
		if err != nil {
			return err
		}
		if c, err = reg.storedClient(ctx, tx, server.Issuer, ""); c != nil || err != nil {
			return err
		}
		if err := postgres.AllowIdle(ctx, tx, idleInTx); err != nil {
			return err
		}
		var expires *time.Time
		if c, expires, err = reg.registerClient(ctx, skillOrigin, server); err != nil {
			return err
		}
		var sealed []byte
		if c.Secret != "" {
			if sealed, err = reg.sealer.sealJSON(clientPurpose, clientRow(server.Issuer, reg.redirectURI()), c.Secret); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO oauth_clients (issuer, redirect_uri, client_id, auth_method, sealed, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (issuer, redirect_uri) DO UPDATE SET client_id = excluded.client_id, auth_method = excluded.auth_method,
				sealed = excluded.sealed, expires_at = excluded.expires_at, created_at = holdpoint_now()`,
			server.Issuer, reg.redirectURI(), c.ID, c.Method, sealed, expires)
		return err
	})
	return c, err
}

// registerClient registers Holdpoint dynamically (RFC 7591 section 3). It also returns the time when the client secret expires;
// nil: never.
func (reg *registrar) registerClient(ctx context.Context, skillOrigin string, server *wire.Server) (*wire.Client, *time.Time, error) {
	method := wire.AuthNone
	for _, m := range []string{wire.AuthBasic, wire.AuthPost, wire.AuthNone} {
		if slices.Contains(server.TokenEndpointAuthMethodsSupported, m) || len(server.TokenEndpointAuthMethodsSupported) == 0 {
			method = m
			break
		}
	}
	u, err := reg.fetch.CheckURL(skillOrigin, server.RegistrationEndpoint)
	if err != nil {
		return nil, nil, wire.NewError(wire.StepRegistration, err, "registration_endpoint: %s", err)
	}
	body, err := json.Marshal(reg.clientMetadata(method))
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, err := reg.fetch.Client(skillOrigin).Do(r)
	if err != nil {
		return nil, nil, wire.NewError(wire.StepRegistration, err, "%s: %s", wire.OriginText(u), wire.DialMessage(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusOK {
		var e oauthex.ClientRegistrationError
		text := ""
		if err := wire.ReadJSON(response.Body, &e); err == nil && e.ErrorCode != "" { // RFC 7591 section 3.2.2
			text = ": " + plain.Line(e.ErrorCode, 100)
			if e.ErrorDescription != "" {
				text += " (" + plain.Line(e.ErrorDescription, wire.MaxText) + ")"
			}
		}
		return nil, nil, wire.NewError(wire.StepRegistration, nil, "%s refuses (HTTP %d)%s", wire.OriginText(u), response.StatusCode, text)
	}
	var answer oauthex.ClientRegistrationResponse
	if err := wire.ReadJSON(response.Body, &answer); err != nil {
		return nil, nil, wire.NewError(wire.StepRegistration, err, "%s: the answer: %s", wire.OriginText(u), err)
	}
	c := &wire.Client{ID: answer.ClientID, Secret: answer.ClientSecret, Method: answer.TokenEndpointAuthMethod, Registered: true}
	switch {
	case c.ID == "" || len(c.ID) > wire.MaxURL || plain.Line(c.ID, wire.MaxURL) != c.ID:
		return nil, nil, wire.NewError(wire.StepRegistration, nil, "%s gave no usable client id", plain.Line(server.Issuer, 200))
	case c.Secret == "":
		c.Method = wire.AuthNone
	case c.Method != wire.AuthPost:
		c.Method = wire.AuthBasic
		if method == wire.AuthPost {
			c.Method = wire.AuthPost
		}
	}
	if answer.ClientSecretExpiresAt.Unix() > 0 && c.Secret != "" {
		return c, &answer.ClientSecretExpiresAt, nil
	}
	return c, nil, nil
}

// storedClient returns the registered client with this id, or, if id is "", the one of the present public URL. It returns nil
// if there is none.
func (reg *registrar) storedClient(ctx context.Context, db postgres.Querier, issuer, id string) (*wire.Client, error) {
	rows, err := db.Query(ctx, `SELECT client_id, auth_method, sealed, redirect_uri FROM oauth_clients
		WHERE issuer = $1 AND CASE WHEN $3 = '' THEN redirect_uri = $2 ELSE client_id = $3 END
			AND (expires_at IS NULL OR expires_at > holdpoint_now() + interval '1 minute') LIMIT 1`,
		issuer, reg.redirectURI(), id)
	if err != nil {
		return nil, err
	}
	var sealed []byte
	var redirect string
	c, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (*wire.Client, error) {
		c := &wire.Client{Registered: true}
		return c, row.Scan(&c.ID, &c.Method, &sealed, &redirect)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil && sealed != nil {
		err = reg.sealer.unsealJSON(clientPurpose, clientRow(issuer, redirect), sealed, &c.Secret)
	}
	return c, err
}

// unregisterClient deletes a client that its authorization server no longer knows.
func (reg *registrar) unregisterClient(ctx context.Context, issuer string, c *wire.Client) error {
	_, err := reg.Pool.Exec(ctx, `DELETE FROM oauth_clients WHERE issuer = $1 AND client_id = $2`, issuer, c.ID)
	return err
}

// clientRow returns the id of a client's row, to which its secret is bound.
func clientRow(issuer, redirectURI string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(issuer+" "+redirectURI))
}
