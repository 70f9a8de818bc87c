package oauthclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

// Step is one step of [Service.Walk].
type Step struct {
	Name   string
	Detail string // what was found, in plain words
	Took   time.Duration
	Err    error // nil: it went well
}

// ping is what a server is asked to see whether it lets anybody in.
const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// Walk takes the steps of a skill's authorization one after the other and tells of each, up to the
// first that breaks, whose error it returns. Where no person is needed it gets a token; it registers no
// client and asks nobody.
func (s *Service) Walk(ctx context.Context, key Key, step func(Step)) error {
	t, err := s.target(ctx, key)
	if err != nil {
		return err
	}
	w := &walk{service: s, target: t, tell: step}
	for _, next := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{StepChallenge, w.challenge},
		{StepResource, w.resource},
		{StepServer, w.server},
		{StepRegistration, w.registration},
		{StepToken, w.token},
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

type walk struct {
	service *Service
	target  Target
	tell    func(Step)
	done    bool // there is nothing further to do

	refusal refusal
	found   *found
	issuer  *Server
}

func (w *walk) challenge(ctx context.Context) (string, error) {
	u, err := url.Parse(w.target.URL)
	if err != nil {
		return "", fail(StepChallenge, err, "the skill's URL cannot be read")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(ping))
	if err != nil {
		return "", fail(StepChallenge, err, "the skill's URL cannot be read")
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
		return "", fail(StepChallenge, err, "%s: %s", origin(u), dialMessage(err))
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		w.done = true
		return fmt.Sprintf("%s answers HTTP %d without a token: it wants none", origin(u), response.StatusCode), nil
	}
	c := ParseChallenge(response.Header.Values("Www-Authenticate"))
	w.refusal = refusal{challenge: c, header: joinHeader(response.Header)}
	switch {
	case c.Scheme == "":
		return "HTTP 401 without a challenge for a token: the metadata is looked for at the well-known places", nil
	case c.ResourceMetadata == "":
		return "HTTP 401, " + c.Scheme + ", without resource_metadata: it is looked for at the well-known places", nil
	}
	return "HTTP 401, " + c.Scheme + ", resource_metadata " + plain(c.ResourceMetadata, 200) + scopesText(c.Scopes), nil
}

func scopesText(scopes []string) string {
	if len(scopes) == 0 {
		return ""
	}
	return ", scopes " + plain(strings.Join(scopes, " "), 300)
}

func (w *walk) resource(ctx context.Context) (string, error) {
	u, err := url.Parse(w.target.URL)
	if err != nil {
		return "", err
	}
	if w.found, err = w.service.resourceMetadata(ctx, &w.target, u, w.refusal.challenge); err != nil {
		return "", err
	}
	text := "resource " + plain(w.found.resource, 200) + ", authorization servers " + plain(strings.Join(w.found.issuers, " "), 400)
	if w.found.legacy {
		text = "none: taken for a server of MCP 2025-03-26, whose origin is its authorization server"
	}
	return text, nil
}

func (w *walk) server(ctx context.Context) (string, error) {
	c, err := w.service.read(ctx, w.service.Pool, byKey, w.target.args()...)
	if err != nil {
		return "", err
	}
	used := ""
	if c != nil {
		used = c.Issuer
	}
	issuer, err := w.found.choose(w.target.Settings.Issuer, used)
	if err != nil {
		return "", err
	}
	if issuer == "" {
		return "", fail(StepServer, nil, "there are several: set oauth.issuer, or choose one when connecting")
	}
	if err := w.service.readServer(ctx, w.target.own(), w.found, issuer); err != nil {
		return "", err
	}
	w.issuer = w.found.servers[issuer]
	text := "issuer " + plain(w.issuer.Issuer, 200) + ", token_endpoint " + plain(w.issuer.TokenEndpoint, 200)
	if w.target.Settings.grant() != grantCode {
		return text, nil
	}
	return text + ", PKCE S256", checkCodeGrant(w.issuer)
}

func (w *walk) registration(ctx context.Context) (string, error) {
	settings := w.target.Settings
	switch {
	case settings.ClientID != "" || settings.unattended():
		c, err := w.service.clientOf(ctx, w.target, w.target.own(), w.issuer)
		if err != nil {
			return "", err
		}
		return "registered beforehand as " + plain(c.id, 200) + ", " + c.method, nil
	case w.issuer.ClientIDMetadataDocumentSupported && w.service.ClientMetadataURL != "":
		return "by its metadata document " + w.service.ClientMetadataURL, nil
	}
	c, err := w.service.storedClient(ctx, w.service.Pool, w.issuer.Issuer, "")
	switch {
	case err != nil:
		return "", err
	case c != nil:
		return "registered dynamically as " + plain(c.id, 200), nil
	case w.issuer.RegistrationEndpoint != "":
		return "will be registered dynamically when somebody connects", nil
	}
	_, err = w.service.clientOf(ctx, w.target, w.target.own(), w.issuer)
	return "", err
}

func (w *walk) token(ctx context.Context) (string, error) {
	s, t := w.service, w.target
	if t.PerUser && t.Principal == (Key{}).Principal {
		w.done = true
		return "each person connects for themselves", nil
	}
	c, err := s.read(ctx, s.Pool, byKey, t.args()...)
	if err != nil {
		return "", err
	}
	if c != nil {
		w.refusal.generation = c.generation
	}
	if t.Settings.unattended() {
		if err := s.authorize(ctx, t, w.refusal); err != nil {
			return "", err
		}
		if c, err = s.read(ctx, s.Pool, byKey, t.args()...); err != nil {
			return "", err
		}
	}
	switch {
	case c == nil || c.tokens.Access == "":
		return "", fail(StepToken, nil, "there is none: somebody has to connect the skill in the dashboard")
	case c.Need != NeedNothing && c.Need != NeedScope:
		return "", fail(StepToken, nil, "%s", c.Reason)
	case c.Issuer != w.issuer.Issuer || !c.fits(t):
		return "", fail(StepToken, nil, "the one that is there was issued by %s for %s: connect again", plain(c.Issuer, 200), plain(c.Resource, 200))
	}
	text := "for " + plain(c.Resource, 200) + scopesText(c.ScopesGranted)
	if c.ExpiresAt != nil {
		text += ", until " + c.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return text, nil
}
