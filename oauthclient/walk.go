package oauthclient

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// Step is the result of one step of [Service.Walk].
type Step struct {
	Name   string
	Detail string // the findings, for people
	Took   time.Duration
	Err    error // nil: the step succeeded
}

// Walk takes the steps of a skill's authorization one after the other and reports each, up to the first failure, whose error
// it returns. It gets a token if that needs no person. It registers no client.
func (s *Service) Walk(ctx context.Context, key Key, step func(Step)) error {
	t, err := s.store.resolveTarget(ctx, key)
	if err != nil {
		return err
	}
	w := &walkState{service: s, target: t}
	for _, next := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{wire.StepChallenge, w.checkChallenge},
		{wire.StepResource, w.checkResource},
		{wire.StepServer, w.checkServer},
		{wire.StepRegistration, w.checkRegistration},
		{wire.StepToken, w.checkToken},
	} {
		began := s.Now()
		detail, err := next.do(ctx)
		step(Step{Name: next.name, Detail: detail, Took: s.Now().Sub(began), Err: err})
		if err != nil {
			return err
		}
		if w.done {
			return nil
		}
	}
	return nil
}

// walkState holds the findings of earlier steps.
type walkState struct {
	service *Service
	target  Target
	done    bool // no step is left to do

	refusal refusal
	found   *wire.Resource
	issuer  *wire.Server
}

func (w *walkState) checkChallenge(ctx context.Context) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.target.URL, strings.NewReader(pingRequest))
	if err != nil {
		return "", wire.NewError(wire.StepChallenge, err, "the skill's URL cannot be read")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	client := outbound.NewClient(outbound.Config{Policy: outbound.Policy{
		AllowPrivate: true, PublicHosts: w.target.PublicHosts, TrustedHosts: w.service.TrustedHosts,
	}, DialTimeout: w.service.Timeout})
	client.Timeout = w.service.Timeout
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		return "", wire.NewError(wire.StepChallenge, err, "%s: %s", wire.OriginText(r.URL), wire.DialMessage(err))
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		w.done = true
		return fmt.Sprintf("%s answers HTTP %d without a token: it requires none", wire.OriginText(r.URL), response.StatusCode), nil
	}
	c := wire.ParseChallenge(response.Header.Values("Www-Authenticate"))
	w.refusal = refusal{challenge: c, header: joinChallenges(response.Header)}
	switch {
	case c.Scheme == "":
		return "HTTP 401 without a challenge for a token: looking for metadata at the well-known URLs", nil
	case c.ResourceMetadata == "":
		return "HTTP 401, " + c.Scheme + ", without resource_metadata: looking for metadata at the well-known URLs", nil
	}
	return "HTTP 401, " + c.Scheme + ", resource_metadata " + plain.Line(c.ResourceMetadata, 200) + scopesText(c.Scopes), nil
}

func (w *walkState) checkResource(ctx context.Context) (string, error) {
	var err error
	if w.found, err = w.service.fetch.ReadResource(ctx, w.target.wireSkill(), w.refusal.challenge); err != nil {
		return "", err
	}
	text := "resource " + plain.Line(w.found.ID, 200) + ", authorization servers " + plain.Line(strings.Join(w.found.Issuers, " "), 400)
	if w.found.Legacy {
		text = "no metadata: a server of MCP 2025-03-26, whose origin is its authorization server"
	}
	return text, nil
}

func (w *walkState) checkServer(ctx context.Context) (string, error) {
	c, err := w.service.store.readConnection(ctx, w.service.Pool, byKeySQL, w.target.sqlArgs()...)
	if err != nil {
		return "", err
	}
	used := ""
	if c != nil {
		used = c.Issuer
	}
	issuer, err := w.found.ChooseIssuer(w.target.Settings.Issuer, used)
	if err != nil {
		return "", err
	}
	if issuer == "" {
		return "", wire.NewError(wire.StepServer, nil, "there are several authorization servers: set oauth.issuer, or choose one when connecting")
	}
	if err := w.service.fetch.AddServer(ctx, w.target.skillOrigin(), w.found, issuer); err != nil {
		return "", err
	}
	w.issuer = w.found.Servers[issuer]
	text := "issuer " + plain.Line(w.issuer.Issuer, 200) + ", token_endpoint " + plain.Line(w.issuer.TokenEndpoint, 200)
	if w.target.Settings.grantType() != grantCode {
		return text, nil
	}
	return text + ", PKCE S256", checkCodeGrant(w.issuer)
}

func (w *walkState) checkRegistration(ctx context.Context) (string, error) {
	settings := w.target.Settings
	switch {
	case settings.ClientID != "" || settings.needsNoPerson():
		c, err := w.service.clients.findClient(ctx, w.target, w.target.skillOrigin(), w.issuer)
		if err != nil {
			return "", err
		}
		return "configured as " + plain.Line(c.ID, 200) + ", " + c.Method, nil
	case w.issuer.ClientIDMetadataDocumentSupported && w.service.ClientMetadataURL != "":
		return "Client ID Metadata Document " + w.service.ClientMetadataURL, nil
	}
	c, err := w.service.clients.storedClient(ctx, w.service.Pool, w.issuer.Issuer, "")
	switch {
	case err != nil:
		return "", err
	case c != nil:
		return "registered dynamically as " + plain.Line(c.ID, 200), nil
	case w.issuer.RegistrationEndpoint != "":
		return "will be registered dynamically at the first connection", nil
	}
	_, err = w.service.clients.findClient(ctx, w.target, w.target.skillOrigin(), w.issuer)
	return "", err
}

func (w *walkState) checkToken(ctx context.Context) (string, error) {
	s, t := w.service, w.target
	if t.lacksPrincipal() {
		w.done = true
		return "each person has their own connection", nil
	}
	c, err := s.store.readConnection(ctx, s.Pool, byKeySQL, t.sqlArgs()...)
	if err != nil {
		return "", err
	}
	if c != nil {
		w.refusal.generation = c.generation
	}
	if t.Settings.needsNoPerson() {
		if err := s.authorizer.authorize(ctx, t, w.refusal); err != nil {
			return "", err
		}
		if c, err = s.store.readConnection(ctx, s.Pool, byKeySQL, t.sqlArgs()...); err != nil {
			return "", err
		}
	}
	switch {
	case c == nil || c.tokens.Access == "":
		return "", wire.NewError(wire.StepToken, nil, "there is no token: connect the skill in the dashboard")
	case c.Need != NeedNothing && c.Need != NeedScope:
		return "", wire.NewError(wire.StepToken, nil, "%s", c.Reason)
	case c.Issuer != w.issuer.Issuer || !c.isForTarget(t):
		return "", wire.NewError(wire.StepToken, nil, "the token was issued by %s for %s: connect again", plain.Line(c.Issuer, 200), plain.Line(c.Resource, 200))
	}
	text := "for " + plain.Line(c.Resource, 200) + scopesText(c.ScopesGranted)
	if c.ExpiresAt != nil {
		text += ", until " + c.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return text, nil
}

// pingRequest is sent without a token, to get a challenge.
const pingRequest = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func scopesText(scopes []string) string {
	if len(scopes) == 0 {
		return ""
	}
	return ", scopes " + plain.Line(strings.Join(scopes, " "), 300)
}
