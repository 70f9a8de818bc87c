// Package receiver owns how a message is handed to an HTTP endpoint that somebody named: which URLs may be
// named, the client that posts, and what an answer means, in bounded words that do not hold the URL, which is
// often a credential. It does not own what is sent, when it is tried again, or what is remembered of it.
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

// MaxURL is the most bytes of a URL.
const MaxURL = 2048

// ErrURL says what a URL has to be.
var ErrURL = fmt.Errorf("must be an https or http URL of at most %d bytes, without a user name and a fragment", MaxURL)

// ParseURL reads the URL of a receiver. The error is [ErrURL].
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > MaxURL || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, ErrURL
	}
	return u, nil
}

// ErrName says what the name of a receiver has to be.
var ErrName = errors.New("must be 1 to 64 of a-z, 0-9, '.', '_' and '-', and begin and end with a letter or digit")

var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// ValidName reports whether a receiver may be called so.
func ValidName(text string) bool { return name.MatchString(text) }

// What a receiver's host or URL is reported to be when no answer came. The texts read on from the host's name. They do not
// say how far a connection came, so they tell nothing about ports; [Answer.Cause] does.
var (
	ErrInsecure    = errors.New("is named with http: use https, or have the host listed in the server's --trusted-hosts")
	ErrNotPublic   = errors.New("is not at a public address: use a public host, or have this one listed in the server's --trusted-hosts")
	ErrUndelivered = errors.New("could not be reached: the server's log says why")
)

// CheckURL judges a receiver's URL by itself: it must be https and must not name a private address, unless its host is
// trusted. The error is [ErrInsecure] or [ErrNotPublic]. The client judges again where a name leads.
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

// CheckStored judges the URL of a receiver that exists, which may be older than the rules.
func CheckStored(trustedHosts []string, address string) error {
	u, err := ParseURL(address)
	if err != nil {
		return err
	}
	return CheckURL(trustedHosts, u)
}

// Examine is [CheckStored], and also looks up where the host leads now.
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

// NewClient returns a client that posts to https and public addresses only, and besides to the trusted hosts. It follows no
// redirect. timeout bounds each request.
func NewClient(trustedHosts []string, timeout time.Duration, config *tls.Config) *http.Client {
	policy := outbound.Policy{TrustedHosts: trustedHosts}
	client := outbound.NewClient(outbound.Config{Policy: policy, DialTimeout: timeout, MaxHeaderBytes: 64 << 10, TLS: config})
	client.Transport = &checkedTransport{RoundTripper: client.Transport, trustedHosts: trustedHosts}
	client.Timeout = timeout
	return client
}

// checkedTransport judges the URL of each request before a connection is looked for.
type checkedTransport struct {
	http.RoundTripper
	trustedHosts []string
}

func (c *checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := CheckURL(c.trustedHosts, r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as http.RoundTripper wants
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

// Encode is a message as JSON, without the escapes that only HTML needs.
func Encode(message any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(message)
	return text.Bytes(), err
}

// Verdict says what became of a message.
type Verdict int

// The verdicts.
const (
	Taken   Verdict = iota // a status from 200 to 299
	Later                  // no answer, or one that says that it may be taken when it is tried again
	Refused                // it was not taken, and will not be
)

// Answer is what a receiver said. Err is fit to be shown: it holds no URL, and no detail of the connection.
type Answer struct {
	Verdict    Verdict
	Status     int           // zero: there was no answer
	Err        error         // nil: the message was taken
	Cause      error         // for the server's log: why there was no answer. nil: there was one
	RetryAfter time.Duration // the receiver asked for it, with 429 or 503; else zero. At most [MaxRetryAfter]
}

const (
	// MaxRetryAfter bounds what a receiver may ask to wait.
	MaxRetryAfter = 10 * time.Minute
	maxError      = 200 // bytes of what went wrong
	maxAnswer     = 64  // bytes that are read of an answer: its status says enough
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

// Unsent is what it means that no answer came. Which way a connection failed is the cause's alone.
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

// word is what a receiver may say of itself besides its status: Slack's answers are of this form.
var word = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// Judge says what an answer means, of which it reads some. A word in it is shown, unless it is a part of the URL.
func Judge(response *http.Response, address string, now time.Time) Answer {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	status := response.StatusCode
	if status >= 200 && status < 300 {
		return Answer{Status: status}
	}
	a := Answer{Verdict: Refused, Status: status, Err: fmt.Errorf("answered HTTP %d", status)}
	said := strings.TrimSpace(string(text))
	switch {
	case status >= 300 && status < 400:
		a.Err = fmt.Errorf("answered HTTP %d, a redirect, which is not followed", status)
	case word.MatchString(said) && !strings.Contains(address, said):
		a.Err = fmt.Errorf("answered HTTP %d: %s", status, said)
	}
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		a.Verdict, a.RetryAfter = Later, retryAfter(response.Header.Get("Retry-After"), now)
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status >= 500:
		a.Verdict = Later
	}
	return a
}

// retryAfter reads the header of that name: seconds or a date (RFC 9110, section 10.2.3). Zero: it says nothing.
func retryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(MaxRetryAfter.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	} else {
		return 0
	}
	return min(max(wait, time.Nanosecond), MaxRetryAfter) // it asked, be it for a time that is over
}

// Stored is a receiver that exists.
type Stored struct {
	Name    string // as a person would name it
	Host    string
	Address string // its URL, which may be a credential
}
