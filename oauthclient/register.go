package oauthclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Paths below the public URL.
const (
	// CallbackPath is where authorization servers send people back to.
	CallbackPath = "/oauth/callback"
	// MetadataPath is Holdpoint's client id metadata document.
	MetadataPath = "/oauth/client-metadata.json"
	// KeysPath has Holdpoint's public keys (RFC 7517).
	KeysPath = "/oauth/jwks.json"
)

const clientName = "Holdpoint"

func (s *Service) at(path string) string { return strings.TrimSuffix(s.PublicURL, "/") + path }

// redirectURI is ours at every authorization server.
func (s *Service) redirectURI() string { return s.at(CallbackPath) }

// metadata describes Holdpoint as a client (RFC 7591 section 2).
func (s *Service) metadata(method string) *oauthex.ClientRegistrationMetadata {
	return &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{s.redirectURI()}, TokenEndpointAuthMethod: method,
		GrantTypes: []string{grantCode, "refresh_token"}, ResponseTypes: []string{"code"},
		ClientName: clientName, ClientURI: s.PublicURL, ApplicationType: s.applicationType(),
		SoftwareID: "holdpoint",
	}
}

// applicationType is "native" where answers come back to this machine (RFC 8252), else "web".
func (s *Service) applicationType() string {
	host := s.public.Hostname()
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "native"
	}
	return "web"
}

// clientOf finds who Holdpoint is to an authorization server, in the order of the specification: registered
// beforehand, by the URL of its metadata, registered dynamically. When none goes, an operator has to help.
func (s *Service) clientOf(ctx context.Context, t Target, own string, server *Server) (*client, error) {
	switch {
	case t.Settings.ClientID != "":
		return s.givenClient(ctx, t, server)
	case t.Settings.unattended():
		return nil, fail(StepRegistration, nil, "the grant %s needs a client that is registered with %s: set oauth.client_id",
			t.Settings.grant(), plain(server.Issuer, 200))
	case server.ClientIDMetadataDocumentSupported && s.ClientMetadataURL != "":
		return &client{id: s.ClientMetadataURL, method: authNone}, nil
	case server.RegistrationEndpoint != "":
		return s.registeredClient(ctx, own, server)
	}
	return nil, &NeedsConnectionError{
		Need: NeedClient,
		Reason: "the authorization server " + plain(server.Issuer, 200) + " registers no clients by itself: register Holdpoint there, " +
			"with the redirect URI " + s.redirectURI() + ", and set oauth.client_id",
	}
}

// givenClient is the one of the settings. It belongs to the authorization server that
// it was first used with, unless the settings name one.
func (s *Service) givenClient(ctx context.Context, t Target, server *Server) (*client, error) {
	if t.Settings.Issuer == "" {
		var other string
		err := s.Pool.QueryRow(ctx, `SELECT issuer FROM oauth_connections
			WHERE skill_id = $1 AND client_id = $2 AND issuer <> $3 LIMIT 1`, t.SkillID, t.Settings.ClientID, server.Issuer).Scan(&other)
		if err == nil {
			return nil, &NeedsConnectionError{
				Need: NeedSettings,
				Reason: "the skill's server now names the authorization server " + plain(server.Issuer, 200) + ", but the client " +
					plain(t.Settings.ClientID, 200) + " belongs to " + plain(other, 200) + ": if this is right, set oauth.issuer",
			}
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
	}
	c := &client{id: t.Settings.ClientID, secret: t.Settings.ClientSecret, method: t.Settings.AuthMethod}
	if c.method == "" {
		c.method = methodFor(t.Settings, server)
	}
	return c, s.giveKey(ctx, t.Settings, c)
}

// giveKey gives a client that signs its key: the one of the settings, or Holdpoint's own.
func (s *Service) giveKey(ctx context.Context, settings Settings, c *client) (err error) {
	switch {
	case c.method != authPrivateKey:
		return nil
	case settings.PrivateKey != "":
		if c.key, err = parsePrivateKey(settings.PrivateKey); err != nil {
			return fail(StepRegistration, err, "oauth.private_key: %s", err)
		}
		return nil
	}
	keys, err := s.ownKeys(ctx)
	if err != nil {
		return err
	}
	c.key = newestSettled(keys)
	return nil
}

// methodFor chooses how a given client authenticates itself, among what the server offers.
func methodFor(settings Settings, server *Server) string {
	offered := server.TokenEndpointAuthMethodsSupported
	switch {
	case settings.PrivateKey != "":
		return authPrivateKey
	case settings.ClientSecret == "" && slices.Contains(offered, authPrivateKey) && settings.Grant == grantClient:
		return authPrivateKey
	case settings.ClientSecret == "":
		return authNone
	case slices.Contains(offered, authPost) && !slices.Contains(offered, authBasic):
		return authPost
	}
	return authBasic // the default (RFC 8414 section 2)
}

// registeredClient is the one that was registered at an authorization server, or is now.
func (s *Service) registeredClient(ctx context.Context, own string, server *Server) (*client, error) {
	c, err := s.storedClient(ctx, s.Pool, server.Issuer, "")
	if c != nil || err != nil {
		return c, err
	}
	done, err := s.turns.take(ctx, server.Issuer)
	if err != nil {
		return nil, err
	}
	defer done()
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		// One process registers; the others find what it registered.
		_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_oauth_client ' || $1, 0))`, server.Issuer)
		if err != nil {
			return err
		}
		if c, err = s.storedClient(ctx, tx, server.Issuer, ""); c != nil || err != nil {
			return err
		}
		if err := postgres.AllowIdle(ctx, tx, waitingIdle); err != nil {
			return err
		}
		var expires *time.Time
		if c, expires, err = s.register(ctx, own, server); err != nil {
			return err
		}
		return s.storeClient(ctx, tx, server.Issuer, c, expires)
	})
	return c, err
}

// storedClient is the one with this id, or, without one, that of this public URL. Nil: there is none.
func (s *Service) storedClient(ctx context.Context, db postgres.Querier, issuer, id string) (*client, error) {
	rows, err := db.Query(ctx, `SELECT client_id, auth_method, sealed, redirect_uri FROM oauth_clients
		WHERE issuer = $1 AND CASE WHEN $3 = '' THEN redirect_uri = $2 ELSE client_id = $3 END
			AND (expires_at IS NULL OR expires_at > holdpoint_now() + interval '1 minute') LIMIT 1`,
		issuer, s.redirectURI(), id)
	if err != nil {
		return nil, err
	}
	var sealed []byte
	var redirect string
	c, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (*client, error) {
		c := &client{registered: true}
		return c, row.Scan(&c.id, &c.method, &sealed, &redirect)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil && sealed != nil {
		err = s.unseal(clientPurpose, clientRow(issuer, redirect), sealed, &c.secret)
	}
	return c, err
}

// clientRow names the row of a client, for what is sealed in it.
func clientRow(issuer, redirectURI string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(issuer+" "+redirectURI))
}

func (s *Service) storeClient(ctx context.Context, tx pgx.Tx, issuer string, c *client, expires *time.Time) error {
	var sealed []byte
	if c.secret != "" {
		var err error
		if sealed, err = s.seal(clientPurpose, clientRow(issuer, s.redirectURI()), c.secret); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO oauth_clients (issuer, redirect_uri, client_id, auth_method, sealed, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (issuer, redirect_uri) DO UPDATE SET client_id = excluded.client_id, auth_method = excluded.auth_method,
			sealed = excluded.sealed, expires_at = excluded.expires_at, created_at = holdpoint_now()`,
		issuer, s.redirectURI(), c.id, c.method, sealed, expires)
	return err
}

// unregister forgets a client that its authorization server does not know any more.
func (s *Service) unregister(ctx context.Context, issuer string, c *client) error {
	_, err := s.Pool.Exec(ctx, `DELETE FROM oauth_clients WHERE issuer = $1 AND client_id = $2`, issuer, c.id)
	return err
}

// register registers Holdpoint (RFC 7591 section 3).
func (s *Service) register(ctx context.Context, own string, server *Server) (*client, *time.Time, error) {
	method := authNone
	for _, m := range []string{authBasic, authPost, authNone} {
		if slices.Contains(server.TokenEndpointAuthMethodsSupported, m) || len(server.TokenEndpointAuthMethodsSupported) == 0 {
			method = m
			break
		}
	}
	answer, err := s.postRegistration(ctx, own, server.RegistrationEndpoint, s.metadata(method))
	if err != nil {
		return nil, nil, err
	}
	c := &client{id: answer.ClientID, secret: answer.ClientSecret, method: answer.TokenEndpointAuthMethod, registered: true}
	switch {
	case c.id == "" || len(c.id) > maxURL || plain(c.id, maxURL) != c.id:
		return nil, nil, fail(StepRegistration, nil, "%s gave no usable client id", plain(server.Issuer, 200))
	case c.secret == "":
		c.method = authNone
	case c.method != authPost:
		c.method = authBasic
		if method == authPost {
			c.method = authPost
		}
	}
	if answer.ClientSecretExpiresAt.Unix() > 0 && c.secret != "" {
		return c, &answer.ClientSecretExpiresAt, nil
	}
	return c, nil, nil
}

func (s *Service) postRegistration(ctx context.Context, own, endpoint string, metadata *oauthex.ClientRegistrationMetadata) (*oauthex.ClientRegistrationResponse, error) {
	u, err := s.checkURL(own, endpoint)
	if err != nil {
		return nil, fail(StepRegistration, err, "registration_endpoint: %s", err)
	}
	body, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, err := s.client(own).Do(r)
	if err != nil {
		return nil, fail(StepRegistration, err, "%s: %s", origin(u), dialMessage(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusOK {
		return nil, fail(StepRegistration, nil, "%s refuses (HTTP %d)%s", origin(u), response.StatusCode, registrationError(response.Body))
	}
	var answer oauthex.ClientRegistrationResponse
	if err := readJSON(response.Body, &answer); err != nil {
		return nil, fail(StepRegistration, err, "%s: the answer: %s", origin(u), err)
	}
	return &answer, nil
}

// registrationError is what a refusal says of itself (RFC 7591 section 3.2.2).
func registrationError(body io.Reader) string {
	var e oauthex.ClientRegistrationError
	if err := readJSON(body, &e); err != nil || e.ErrorCode == "" {
		return ""
	}
	text := ": " + plain(e.ErrorCode, 100)
	if e.ErrorDescription != "" {
		text += " (" + plain(e.ErrorDescription, maxPlain) + ")"
	}
	return text
}

func origin(u *url.URL) string { return u.Scheme + "://" + plain(u.Host, 200) }

// Mount serves what authorization servers fetch of Holdpoint: its metadata and its keys.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+MetadataPath, func(w http.ResponseWriter, _ *http.Request) {
		document := struct {
			*oauthex.ClientRegistrationMetadata
			ClientID string `json:"client_id"`
		}{s.metadata(authNone), s.at(MetadataPath)}
		s.publish(w, "public, max-age=3600", document)
	})
	mux.HandleFunc("GET "+KeysPath, func(w http.ResponseWriter, r *http.Request) {
		set, err := s.publicKeys(r.Context())
		if err != nil {
			s.Logger.Error("publishing keys", "error", err)
			http.Error(w, "the keys cannot be read now", http.StatusServiceUnavailable)
			return
		}
		s.publish(w, fmt.Sprintf("public, max-age=%d", int(keysMaxAge.Seconds())), set)
	})
}

func (s *Service) publish(w http.ResponseWriter, cache string, v any) {
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
