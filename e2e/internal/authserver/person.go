package authserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// Person is a person with a browser without scripts, who stays signed in. Other browsers find the same two pages, with the data-testid
// account and sign-in, allow and deny.
type Person struct {
	Account string
	// Deny makes the person refuse consent.
	Deny bool

	issuer string
	client *http.Client
}

// NewPerson returns a person who is not signed in.
func (s *Server) NewPerson(t testing.TB, account string) *Person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &Person{Account: account, issuer: s.Issuer, client: &http.Client{
		Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Authorize opens an authorization URL, signs in and consents if asked. It returns the redirect to a URI outside of the authorization
// server, with a code or an error, and does not follow it.
func (p *Person) Authorize(ctx context.Context, authorization string) (*url.URL, error) {
	next, form := authorization, url.Values(nil)
	for range 12 {
		location, page, err := p.loadPage(ctx, next, form)
		if err != nil {
			return nil, err
		}
		switch {
		case location != nil && !strings.HasPrefix(location.String(), p.issuer+"/"):
			return location, nil
		case location != nil:
			next, form = location.String(), nil
		case strings.Contains(page, `id="login"`):
			form = url.Values{"account": {p.Account}}
		case strings.Contains(page, `id="consent"`) && p.Deny:
			form = url.Values{"answer": {"deny"}}
		case strings.Contains(page, `id="consent"`):
			form = url.Values{}
		default:
			return nil, fmt.Errorf("%s shows an unexpected page: %s", next, page)
		}
	}
	return nil, fmt.Errorf("%s: too many pages", authorization)
}

// loadPage gets a page or posts a form. It returns the page, or the location of a redirect.
func (p *Person) loadPage(ctx context.Context, address string, form url.Values) (location *url.URL, page string, err error) {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, "", err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, "", err
	}
	if location, err := response.Location(); err == nil {
		return location, "", nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("%s answers %s: %s", address, response.Status, text)
	}
	return nil, string(text), nil
}
