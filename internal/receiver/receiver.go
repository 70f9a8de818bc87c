// Package receiver owns the delivery of messages to HTTP endpoints that people configure: the rules for URLs, the client, and
// the meaning of answers. Its texts are bounded and do not contain the URL, which is often a credential. It does not own the
// messages, retries or records.
package receiver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// MaxURL is the maximum length of a URL in bytes.
const MaxURL = 2048

// ErrURL is the rule for URLs of receivers.
var ErrURL = fmt.Errorf("must be an https or http URL of at most %d bytes, without a user name and a fragment", MaxURL)

// ParseURL parses the URL of a receiver. The error is [ErrURL].
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > MaxURL || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, ErrURL
	}
	return u, nil
}

// ErrName is the rule for names of receivers.
var ErrName = errors.New("must be 1 to 64 of a-z, 0-9, '.', '_' and '-', and begin and end with a letter or digit")

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// ValidName reports whether a receiver may have a name.
func ValidName(text string) bool { return nameForm.MatchString(text) }

// Errors when no answer came. The texts continue a sentence that begins with the host's name. They do not say how far a
// connection got, so that nobody can scan ports with them; [Answer.Cause] does.
var (
	ErrInsecure    = errors.New("is named with http: use https, or have the host listed in the server's --trusted-hosts")
	ErrNotPublic   = errors.New("is not at a public address: use a public host, or have this one listed in the server's --trusted-hosts")
	ErrUndelivered = errors.New("could not be reached: the server's log says why")
)

// CheckURL checks a receiver's URL without resolving its host: it must be https and must not contain a private address,
// unless its host is trusted. The error is [ErrInsecure] or [ErrNotPublic]. The client checks resolved addresses as well.
func CheckURL(trustedHosts []string, u *url.URL) error {
	policy := outbound.Policy{TrustedHosts: trustedHosts}
	if policy.TrustsURL(u) {
		return nil
	}
	if u.Scheme != "https" {
		return ErrInsecure
	}
	address, err := netip.ParseAddr(u.Hostname())
	if outbound.IsLocalName(u.Hostname()) || err == nil && policy.Check(net.JoinHostPort(u.Hostname(), "0"), address) != nil {
		return ErrNotPublic
	}
	return nil
}

// CheckStored checks the URL of a stored receiver, which may be older than the rules.
func CheckStored(trustedHosts []string, address string) error {
	u, err := ParseURL(address)
	if err != nil {
		return err
	}
	return CheckURL(trustedHosts, u)
}

// Examine is [CheckStored], and also checks the addresses that the host has now.
func Examine(ctx context.Context, trustedHosts []string, address string) error {
	u, err := ParseURL(address)
	if err != nil {
		return err
	}
	if err := CheckURL(trustedHosts, u); err != nil {
		return err
	}
	if (outbound.Policy{TrustedHosts: trustedHosts}).Resolve(ctx, u) != nil {
		return ErrNotPublic
	}
	return nil
}

// NewClient returns a client that posts only to trusted hosts, and by https to public addresses. It follows no redirects.
// timeout limits each request.
func NewClient(trustedHosts []string, timeout time.Duration, config *tls.Config) *http.Client {
	policy := outbound.Policy{TrustedHosts: trustedHosts}
	client := outbound.NewClient(outbound.Config{Policy: policy, DialTimeout: timeout, MaxHeaderBytes: 64 << 10, TLS: config})
	client.Transport = &checkedTransport{RoundTripper: client.Transport, trustedHosts: trustedHosts}
	client.Timeout = timeout
	return client
}

// checkedTransport checks the URL of each request before it connects.
type checkedTransport struct {
	http.RoundTripper
	trustedHosts []string
}

func (c *checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := CheckURL(c.trustedHosts, r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // http.RoundTripper requires it
		}
		return nil, err
	}
	return c.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is called by [http.Client.CloseIdleConnections].
func (c *checkedTransport) CloseIdleConnections() {
	if closer, ok := c.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// Encode returns a message as JSON, without escapes for HTML.
func Encode(message any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(message)
	return text.Bytes(), err
}

// Verdict is the result of a delivery.
type Verdict int

// The verdicts.
const (
	Taken   Verdict = iota // accepted: a status from 200 to 299
	Later                  // no answer, or one that allows a retry
	Refused                // refused for good
)

// Answer is the answer of a receiver. Err can be shown to people: it contains no URL and no detail of the connection.
type Answer struct {
	Verdict    Verdict
	Status     int           // zero: there was no answer
	Err        error         // nil: the message was accepted
	Cause      error         // why there was no answer, for the server's log; nil: there was one
	RetryAfter time.Duration // requested with 429 or 503; else zero. At most [MaxRetryAfter]
}

const (
	// MaxRetryAfter limits the wait that a receiver may request.
	MaxRetryAfter = 10 * time.Minute
	maxError      = 200 // bytes of an error's text
	maxAnswer     = 64  // bytes read of an answer
)

// Post sends a message as JSON.
func Post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte, now time.Time) Answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return Answer{Verdict: Refused, Err: errors.New("its URL cannot be used")}
	}
	maps.Copy(r.Header, header)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "Holdpoint")
	response, err := client.Do(r)
	if err != nil {
		return Unsent(err)
	}
	defer response.Body.Close()
	return Judge(response, address, now)
}

// Unsent returns the answer for a request that failed. Only the cause has the detail of the connection.
func Unsent(err error) Answer {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	cause := errors.New(plain.Line(err.Error(), maxError))
	switch {
	case errors.Is(err, ErrInsecure), errors.Is(err, ErrNotPublic):
		return Answer{Verdict: Refused, Err: err, Cause: cause}
	case errors.Is(err, outbound.ErrForbidden):
		return Answer{Verdict: Refused, Err: ErrNotPublic, Cause: cause}
	}
	return Answer{Verdict: Later, Err: ErrUndelivered, Cause: cause}
}

// reasonForm matches error codes in answers, in the form of Slack's.
var reasonForm = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// Judge interprets an answer. It shows an error code in the body, unless that is a part of the URL.
func Judge(response *http.Response, address string, now time.Time) Answer {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	status := response.StatusCode
	if status >= 200 && status < 300 {
		return Answer{Status: status}
	}
	a := Answer{Verdict: Refused, Status: status, Err: fmt.Errorf("answered HTTP %d", status)}
	reason := strings.TrimSpace(string(text))
	switch {
	case status >= 300 && status < 400:
		a.Err = fmt.Errorf("answered HTTP %d, a redirect, which is not followed", status)
	case reasonForm.MatchString(reason) && !strings.Contains(address, reason):
		a.Err = fmt.Errorf("answered HTTP %d: %s", status, reason)
	}
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		a.Verdict, a.RetryAfter = Later, parseRetryAfter(response.Header.Get("Retry-After"), now)
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status >= 500:
		a.Verdict = Later
	}
	return a
}

// parseRetryAfter parses the header Retry-After: seconds or a date (RFC 9110, section 10.2.3). It returns 0 for other text.
func parseRetryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(MaxRetryAfter.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	} else {
		return 0
	}
	return min(max(wait, time.Nanosecond), MaxRetryAfter) // not 0, even for a time in the past
}

// Stored is a stored receiver.
type Stored struct {
	Name    string // for people
	Host    string
	Address string // its URL, which may be a credential
}
