package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

const (
	maxDocument  = 256 << 10 // of a metadata document
	maxURL       = 2048
	maxRedirects = 5
)

// rootMessage is an error without the request and its URL.
func rootMessage(err error) string {
	if inURL, ok := errors.AsType[*url.Error](err); ok {
		err = inURL.Err
	}
	return err.Error()
}

// publicOnly ends the origin of a skill whose host may not lead to private addresses; see [Target].PublicHosts.
const publicOnly = " public"

// own is [ownOf] for the skill's URL; empty: it has none.
func (t Target) own() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	own := ownOf(u)
	if slices.Contains(t.PublicHosts, strings.ToLower(u.Hostname())) {
		own += publicOnly
	}
	return own
}

// ownOf is the origin of a skill's URL, to which its server's documents may lead although it is private, or not https.
func ownOf(u *url.URL) string {
	return strings.ToLower(u.Scheme + "://" + dialled(u))
}

// dialled is the host and port that a URL leads to.
func dialled(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// policy says what may be dialled of what a skill's server, at own, names.
func (s *Service) policy(own string) outbound.Policy {
	trusted := s.TrustedHosts
	if _, host, ok := strings.Cut(own, "://"); ok && !strings.HasSuffix(own, publicOnly) {
		trusted = append(slices.Clip(trusted), host)
	}
	return outbound.Policy{TrustedHosts: trusted}
}

// trusts reports whether a host may be reached without https: it is the skill's own, or the
// operator of this server trusts it.
func (s *Service) trusts(own string, u *url.URL) bool {
	return strings.TrimSuffix(own, publicOnly) == ownOf(u) || slices.ContainsFunc(s.TrustedHosts, func(trusted string) bool {
		return strings.EqualFold(trusted, u.Host) || strings.EqualFold(trusted, u.Hostname())
	})
}

// checkURL judges a URL that a server named. Where it leads is judged again when it is dialled.
func (s *Service) checkURL(own, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("there is none")
	case len(text) > maxURL:
		return nil, fmt.Errorf("it is longer than %d bytes", maxURL)
	case err != nil:
		return nil, errors.New("it cannot be read")
	case u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is no https URL", plain(text, 100))
	case u.User != nil:
		return nil, errors.New("it has a user name in it")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("it has a fragment")
	case u.Scheme == "http" && !s.trusts(own, u):
		return nil, fmt.Errorf("%s://%s is not https", u.Scheme, plain(u.Host, 100))
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u, s.policy(own).Check(dialled(u), ip)
	}
	return u, nil
}

// statusError is an answer other than 200.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.status, http.StatusText(e.status)))
}

// typeError is an answer that is no JSON: a page, say, that a site gives for every path.
type typeError struct{ media string }

func (e *typeError) Error() string {
	return fmt.Sprintf("its type is %q, not application/json", e.media)
}

// missing reports whether the next place may be tried: the document is not at this one.
func missing(err error) bool {
	var status *statusError
	var media *typeError
	return errors.As(err, &media) || errors.As(err, &status) && status.status >= 400 && status.status < 500 &&
		status.status != http.StatusRequestTimeout && status.status != http.StatusTooManyRequests
}

// getJSON reads a document into v. Redirects are followed where checkURL lets them lead. The
// error is fit to be shown.
func (s *Service) getJSON(ctx context.Context, own, address string, v any) error {
	for range maxRedirects + 1 {
		u, err := s.checkURL(own, address)
		if err != nil {
			return err
		}
		next, err := s.getOnce(ctx, own, u, v)
		if err != nil || next == "" {
			return err
		}
		address = next
	}
	return fmt.Errorf("more than %d redirects", maxRedirects)
}

func (s *Service) getOnce(ctx context.Context, own string, u *url.URL, v any) (redirect string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", errors.New("it is no URL")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "holdpoint")
	response, err := s.client(own).Do(r)
	if err != nil {
		return "", &requestError{err}
	}
	defer func() { _ = response.Body.Close() }()
	switch code := response.StatusCode; {
	case code == http.StatusOK:
	case code >= 300 && code < 400:
		target, err := response.Location()
		if err != nil {
			return "", fmt.Errorf("HTTP %d without a place to go", code)
		}
		return target.String(), nil
	default:
		return "", &statusError{code}
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return "", &typeError{plain(response.Header.Get("Content-Type"), 100)}
	}
	return "", readJSON(response.Body, v)
}

// readJSON reads one bounded JSON object.
func readJSON(body io.Reader, v any) error {
	text, err := io.ReadAll(io.LimitReader(body, maxDocument+1))
	switch {
	case err != nil:
		return &requestError{err}
	case len(text) > maxDocument:
		return fmt.Errorf("it is larger than %d bytes", maxDocument)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return errors.New("it is not JSON of the expected form")
	}
	return nil
}

// requestError is a request without an answer.
type requestError struct{ err error }

func (e *requestError) Error() string { return dialMessage(e.err) }

func (e *requestError) Unwrap() error { return e.err }

// boundedClient is a client whose answers end at the size of the largest document: for libraries that read to the end.
func boundedClient(client *http.Client) *http.Client {
	c := *client
	c.Transport = boundedTransport{client.Transport}
	return &c
}

type boundedTransport struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxDocument), response.Body}
	return response, nil
}
