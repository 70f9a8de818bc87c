package wire

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
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Fetcher reads documents of servers that a skill's server names, and decides which of these servers may be reached.
type Fetcher struct {
	TrustedHosts []string // may be reached without https and on private addresses
	Timeout      time.Duration
	clients      httpClients
}

// httpClients are HTTP clients by the skill origin that each of them may reach on a private address.
type httpClients struct {
	mu       sync.Mutex
	byOrigin map[string]*http.Client
}

const maxClients = 256

// Client returns the client for servers that the skill's server at this origin names.
func (fetch *Fetcher) Client(skillOrigin string) *http.Client {
	fetch.clients.mu.Lock()
	defer fetch.clients.mu.Unlock()
	if c, ok := fetch.clients.byOrigin[skillOrigin]; ok {
		return c
	}
	if len(fetch.clients.byOrigin) >= maxClients {
		fetch.clients.closeIdle()
	}
	if fetch.clients.byOrigin == nil {
		fetch.clients.byOrigin = map[string]*http.Client{}
	}
	c := outbound.NewClient(outbound.Config{
		Policy: fetch.dialPolicy(skillOrigin), DialTimeout: fetch.Timeout, MaxHeaderBytes: 64 << 10,
	})
	c.Timeout = fetch.Timeout
	fetch.clients.byOrigin[skillOrigin] = c
	return c
}

func (c *httpClients) closeIdle() {
	for _, client := range c.byOrigin {
		client.CloseIdleConnections()
	}
	clear(c.byOrigin)
}

// Close closes idle connections.
func (fetch *Fetcher) Close() {
	fetch.clients.mu.Lock()
	defer fetch.clients.mu.Unlock()
	fetch.clients.closeIdle()
}

// dialPolicy allows public addresses, trusted hosts, and the skill's own host.
func (fetch *Fetcher) dialPolicy(skillOrigin string) outbound.Policy {
	trusted := fetch.TrustedHosts
	if _, host, ok := strings.Cut(skillOrigin, "://"); ok && !strings.HasSuffix(skillOrigin, PublicOnly) {
		trusted = append(slices.Clip(trusted), host)
	}
	return outbound.Policy{TrustedHosts: trusted}
}

// allowsHTTP reports whether a URL may be http: its host is the skill's own, or trusted by the operator of this server.
func (fetch *Fetcher) allowsHTTP(skillOrigin string, u *url.URL) bool {
	return strings.TrimSuffix(skillOrigin, PublicOnly) == OriginOf(u) || slices.ContainsFunc(fetch.TrustedHosts, func(trusted string) bool {
		return strings.EqualFold(trusted, u.Host) || strings.EqualFold(trusted, u.Hostname())
	})
}

// CheckURL checks a URL that a server named. The address is checked again when it is dialed.
func (fetch *Fetcher) CheckURL(skillOrigin, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("there is none")
	case len(text) > MaxURL:
		return nil, fmt.Errorf("it is longer than %d bytes", MaxURL)
	case err != nil:
		return nil, errors.New("it cannot be read")
	case u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is not an https URL", plain.Line(text, 100))
	case u.User != nil:
		return nil, errors.New("it has a user name in it")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("it has a fragment")
	case u.Scheme == "http" && !fetch.allowsHTTP(skillOrigin, u):
		return nil, fmt.Errorf("%s://%s is not https", u.Scheme, plain.Line(u.Host, 100))
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u, fetch.dialPolicy(skillOrigin).Check(hostPort(u), ip)
	}
	return u, nil
}

// Limits of documents and their URLs.
const (
	MaxDocument  = 256 << 10 // bytes of a metadata document
	MaxURL       = 2048
	maxRedirects = 5
)

// getJSON reads a JSON document into v. It follows redirects that pass CheckURL. People may see the error.
func (fetch *Fetcher) getJSON(ctx context.Context, skillOrigin, address string, v any) error {
	for range maxRedirects + 1 {
		u, err := fetch.CheckURL(skillOrigin, address)
		if err != nil {
			return err
		}
		next, err := fetch.getOnce(ctx, skillOrigin, u, v)
		if err != nil || next == "" {
			return err
		}
		address = next
	}
	return fmt.Errorf("more than %d redirects", maxRedirects)
}

func (fetch *Fetcher) getOnce(ctx context.Context, skillOrigin string, u *url.URL, v any) (redirect string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", errors.New("it is no URL")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "holdpoint")
	response, err := fetch.Client(skillOrigin).Do(r)
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
		text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", code, http.StatusText(code)))
		if code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests {
			return "", &missingError{text}
		}
		return "", errors.New(text)
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return "", &missingError{fmt.Sprintf("its type is %q, not application/json", plain.Line(response.Header.Get("Content-Type"), 100))}
	}
	return "", ReadJSON(response.Body, v)
}

// ReadJSON reads a bounded JSON document.
func ReadJSON(body io.Reader, v any) error {
	text, err := io.ReadAll(io.LimitReader(body, MaxDocument+1))
	switch {
	case err != nil:
		return &requestError{err}
	case len(text) > MaxDocument:
		return fmt.Errorf("it is larger than %d bytes", MaxDocument)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return errors.New("it is not JSON of the expected form")
	}
	return nil
}

// missingError is an answer that means that the document is not at this address, so that the next one may be tried: a status of
// 4xx, or another type, such as a web page that a site returns for every path.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

// requestError is a request that got no answer.
type requestError struct{ err error }

func (e *requestError) Error() string { return DialMessage(e.err) }

func (e *requestError) Unwrap() error { return e.err }

// PublicOnly ends the origin of a skill whose host must not resolve to private addresses.
const PublicOnly = " public"

// OriginOf returns scheme, host and port of a URL.
func OriginOf(u *url.URL) string {
	return strings.ToLower(u.Scheme + "://" + hostPort(u))
}

// hostPort returns the host and the port that a URL leads to.
func hostPort(u *url.URL) string {
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

// OriginText returns the origin of a URL for messages.
func OriginText(u *url.URL) string { return u.Scheme + "://" + plain.Line(u.Host, 200) }
