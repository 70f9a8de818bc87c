// Package client owns the way from a terminal, a script or a test to a running
// Holdpoint: its JSON API, and an agent's MCP endpoint as far as listing and calling
// tools needs it. It hands on what it receives byte for byte, and knows nothing
// of how the server works inside.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config is what a [Client] is made of.
type Config struct {
	// URL is where Holdpoint is reached, "http://127.0.0.1:8080".
	URL string
	// Token is a person's token or an agent's key. It is sent to URL only.
	Token string
	// HTTP is used for all requests. Nil: one that follows no redirects.
	HTTP *http.Client
	// Timeout bounds requests to the API. Zero: 60 s.
	Timeout time.Duration
	// Silence is how long a held response may say nothing before its
	// connection counts as lost; the server says something every 10 s. Zero: 45 s.
	Silence time.Duration
	// Retry is the pause before the first attempt to reach the server again;
	// it doubles up to 20 times of it. Zero: 250 ms.
	Retry time.Duration
	// Patience is how long to go on trying to reach a server that is away. Zero: 2 minutes.
	Patience time.Duration
	// Version of the program, as the server is told.
	Version string
	// TokenEnds is told with each answer that says so that the token ends soon. Nil: nobody wants to know.
	TokenEnds func(at time.Time)
}

// tokenEndsHeader is the server's word that the token ends soon, and when.
const tokenEndsHeader = "Holdpoint-Token-Expires"

func (c *Client) noteTokenEnd(h http.Header) {
	at, err := time.Parse(time.RFC3339, h.Get(tokenEndsHeader))
	if err == nil && c.TokenEnds != nil {
		c.TokenEnds(at)
	}
}

// Client talks to one Holdpoint with one credential. It is safe for concurrent use.
type Client struct {
	Config
	base string
}

// maxBody bounds what is read of one answer.
const maxBody = 64 << 20

// New makes a client.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("use server %q: want an URL such as http://127.0.0.1:8080", c.URL)
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	c.Timeout = orDefault(c.Timeout, time.Minute)
	c.Silence = orDefault(c.Silence, 45*time.Second)
	c.Retry = orDefault(c.Retry, 250*time.Millisecond)
	c.Patience = orDefault(c.Patience, 2*time.Minute)
	return &Client{Config: c, base: strings.TrimSuffix(base.String(), "/")}, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Problem is an error that the API answered (RFC 9457).
type Problem struct {
	Status         int            `json:"status"`
	Code           string         `json:"code"`
	Detail         string         `json:"detail"`
	Errors         []ProblemField `json:"errors"`
	ApprovalStatus string         `json:"approval_status"`
	Decision       *Decision      `json:"decision"`
}

// ProblemField is one field that is wrong.
type ProblemField struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Decision is how an approval was decided before.
type Decision struct {
	By      *string   `json:"by"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
	Note    string    `json:"note"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = http.StatusText(p.Status)
	}
	if p.Code == "" {
		return fmt.Sprintf("%s (HTTP %d)", text, p.Status)
	}
	return fmt.Sprintf("%s (%s)", text, p.Code)
}

// Get asks the API for what is at path below /api/v1.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, nil)
}

// Stream copies what is at path below /api/v1 to w, however long that is and takes. An error means that
// what was written is not all of it.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	c.authorize(request)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return c.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	c.noteTokenEnd(response.Header)
	if response.StatusCode >= http.StatusMultipleChoices {
		text, err := readAll(response.Body)
		if err != nil {
			return fmt.Errorf("read answer of %s: %w", c.base, err)
		}
		return problemOf(response, text)
	}
	if n, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("cut off after %d bytes, so this is not all of it: %w", n, err)
	}
	return nil
}

// Post sends body, which may be nil, to path below /api/v1.
func (c *Client) Post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	return c.do(ctx, http.MethodPost, path, body)
}

// Patch changes what body names of what is at path below /api/v1.
func (c *Client) Patch(ctx context.Context, path string, body any) (json.RawMessage, error) {
	return c.do(ctx, http.MethodPatch, path, body)
}

// Delete deletes what is at path below /api/v1.
func (c *Client) Delete(ctx context.Context, path string) error {
	_, err := c.do(ctx, http.MethodDelete, path, nil)
	return err
}

// keyed is the header of a request that may be repeated.
const keyed = "Idempotency-Key"

func (c *Client) do(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	return c.doOnce(ctx, method, path, body, "")
}

// doOnce is do with an idempotency key; empty: none.
func (c *Client) doOnce(ctx context.Context, method, path string, body any, key string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := encode(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1/"+path, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json")
	if key != "" {
		request.Header.Set(keyed, key)
	}
	c.authorize(request)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	c.noteTokenEnd(response.Header)
	text, err := readAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, problemOf(response, text)
	}
	return text, nil
}

func (c *Client) authorize(request *http.Request) {
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	request.Header.Set("User-Agent", "holdpoint/"+c.Version)
}

// unreachable says which server could not be reached, without the repetition in url.Error.
func (c *Client) unreachable(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("reach %s: %w", c.base, err)
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = fmt.Errorf("it has more than %d bytes", maxBody)
	}
	return text, err
}

// problemOf reads an error answer, whoever gave it: Holdpoint, or something before it.
func problemOf(response *http.Response, text []byte) *Problem {
	p := &Problem{}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if strings.HasSuffix(media, "json") {
		_ = json.Unmarshal(text, p) // what it does not say is not there
	} else if strings.HasPrefix(media, "text/plain") {
		const shown = 500
		p.Detail = strings.TrimSpace(string(text[:min(len(text), shown)]))
	}
	p.Status = response.StatusCode
	return p
}

// Segment escapes a name for use in a path.
func Segment(name string) string { return url.PathEscape(name) }

// encode writes a body without escaping what HTML would have escaped: arguments arrive as they were written.
func encode(body any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
