// Package client is a client of a running Holdpoint for terminals, scripts and tests: of its JSON API, and of an agent's MCP
// endpoint, to list and call tools. It passes on answers byte for byte, and does not depend on the server's packages.
//
// api_gen.go has the types and operations of the API, generated from docs/openapi.json.
package client

//go:generate go run ./generate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config configures a [Client].
type Config struct {
	// URL of the server, such as http://127.0.0.1:8080.
	URL string
	// Token is a person's token or an agent's key. It is sent to URL only.
	Token string
	// HTTP sends all requests. Nil: a client that follows no redirects.
	HTTP *http.Client
	// Timeout limits a request to the API. Zero: 60 s.
	Timeout time.Duration
	// Silence is how long a held response may stay silent before its connection counts as lost. The server
	// sends something every 10 s. Zero: 45 s.
	Silence time.Duration
	// Retry is the pause before the first new attempt to reach the server. It doubles up to 20 times its value.
	// Zero: 250 ms.
	Retry time.Duration
	// Patience is how long to keep trying to reach a server that is away. Zero: 2 minutes.
	Patience time.Duration
	// Version of the program, for the User-Agent header.
	Version string
	// TokenEnds is called with each answer that says that the token expires soon. Nil: not called.
	TokenEnds func(at time.Time)
}

// Client talks to one Holdpoint with one credential. It is safe for concurrent use.
type Client struct {
	Config
	base string
}

// New makes a client.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("use server %q: must be a URL such as http://127.0.0.1:8080", c.URL)
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.Silence = cmp.Or(c.Silence, 45*time.Second)
	c.Retry = cmp.Or(c.Retry, 250*time.Millisecond)
	c.Patience = cmp.Or(c.Patience, 2*time.Minute)
	return &Client{Config: c, base: strings.TrimSuffix(base.String(), "/")}, nil
}

// APIOperation is one operation of the API.
type APIOperation struct {
	Method, Path, Summary string
}

// Reply is the body of an answer, as the server wrote it.
type Reply[T any] []byte

// Value decodes the answer.
func (r Reply[T]) Value() (T, error) {
	var v T
	if err := json.Unmarshal(r, &v); err != nil {
		return v, fmt.Errorf("understand the server's answer: %w", err)
	}
	return v, nil
}

// Value decodes the answer of a request. It takes the results of the request.
func Value[T any](reply Reply[T], err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return reply.Value()
}

// List is a page of a list.
type List[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// parameters are the query of a request.
type parameters url.Values

// addParameter sets a parameter, unless its value is zero.
func (p parameters) addParameter(name string, value any) {
	switch v := value.(type) {
	case string:
		if v != "" {
			url.Values(p).Set(name, v)
		}
	case *int64:
		if v != nil {
			url.Values(p).Set(name, strconv.FormatInt(*v, 10))
		}
	case bool:
		if v {
			url.Values(p).Set(name, "true")
		}
	case []string:
		if len(v) > 0 {
			url.Values(p).Set(name, strings.Join(v, ","))
		}
	}
}

// Segment escapes a name for use in a path.
func Segment(name string) string { return url.PathEscape(name) }

// Send sends a request to the API and returns the answer's body. Path begins with /api/v1; body may be nil.
func (c *Client) Send(ctx context.Context, method, path string, body any) ([]byte, error) {
	return c.doRequest(ctx, method, path, nil, body)
}

// doRequest sends a request and reads its answer within the timeout.
func (c *Client) doRequest(ctx context.Context, method, path string, query parameters, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var content []byte
	if body != nil {
		var err error
		if content, err = encodeBody(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	request, err := c.newRequest(ctx, method, path, query, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	return c.fetch(request)
}

// streamAnswer copies an answer of any length to w. After an error, w has only a part of it.
func (c *Client) streamAnswer(ctx context.Context, path string, query parameters, w io.Writer) error {
	request, err := c.newRequest(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return c.exchange(request, func(response *http.Response) error { return copyBody(w, response) })
}

// Stream sends a request to the API and copies its answer, of any length, to the writer that w returns. After an error, the
// writer has only a part of it. Path begins with /api/v1 and may have a query; body may be nil.
func (c *Client) Stream(ctx context.Context, method, path string, body []byte, w func(isJSON bool) io.Writer) error {
	request, err := c.newRequest(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	return c.exchange(request, func(response *http.Response) error { return copyBody(w(isJSONMedia(response)), response) })
}

func (c *Client) newRequest(ctx context.Context, method, path string, query parameters, body []byte) (*http.Request, error) {
	address := c.base + path
	if len(query) > 0 {
		address += "?" + url.Values(query).Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	c.authorize(request)
	return request, nil
}

// Upload sends the content of a file to the URL from the API. The URL is a credential, so no other one is sent.
func (c *Client) Upload(ctx context.Context, to PresignedUpload, content io.Reader, size int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, to.Method, to.UploadURL, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.ContentLength = size
	if size == 0 {
		request.Body = http.NoBody
	}
	for name, value := range to.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "holdpoint/"+c.Version)
	return c.fetch(request)
}

func (c *Client) authorize(request *http.Request) {
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	request.Header.Set("User-Agent", "holdpoint/"+c.Version)
}

// fetch sends a request and returns the body of its answer.
func (c *Client) fetch(request *http.Request) (text []byte, err error) {
	err = c.exchange(request, func(response *http.Response) error {
		text, err = c.readBody(response)
		return err
	})
	return text, err
}

// exchange sends a request and passes its answer to read. An answer that is no success is a [*Problem].
func (c *Client) exchange(request *http.Request, read func(*http.Response) error) error {
	response, err := c.HTTP.Do(request) //nolint:gosec // G704: the user names the server
	if err != nil {
		return c.unreachableError(err)
	}
	defer func() { _ = response.Body.Close() }()
	if at, err := time.Parse(time.RFC3339, response.Header.Get("Holdpoint-Token-Expires")); err == nil && c.TokenEnds != nil {
		c.TokenEnds(at)
	}
	if response.StatusCode < http.StatusMultipleChoices && !isProblem(response) {
		return read(response)
	}
	text, err := c.readBody(response)
	if err != nil {
		return err
	}
	return readProblem(response, text)
}

// isProblem reports whether an answer is a problem. One has the status 202: a change that waits for a second operator.
func isProblem(response *http.Response) bool {
	return strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json")
}

// unreachableError names the server that could not be reached, without the repetition in url.Error.
func (c *Client) unreachableError(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("reach %s: %w", c.base, err)
}

func (c *Client) readBody(response *http.Response) ([]byte, error) {
	text, err := readAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	return text, nil
}

func copyBody(w io.Writer, response *http.Response) error {
	if n, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("cut off after %d bytes: the output is incomplete: %w", n, err)
	}
	return nil
}

// maxBody limits the size of one answer.
const maxBody = 64 << 20

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = fmt.Errorf("it has more than %d bytes", maxBody)
	}
	return text, err
}

// Problem is the API's answer to a refused request (RFC 9457).
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = http.StatusText(int(p.Status))
	}
	if p.Code == "" {
		return fmt.Sprintf("%s (HTTP %d)", text, p.Status)
	}
	return fmt.Sprintf("%s (%s)", text, p.Code)
}

// readProblem reads an error answer of Holdpoint, or of a proxy in front of it.
func readProblem(response *http.Response, text []byte) *Problem {
	p := &Problem{}
	if isJSONMedia(response) {
		_ = json.Unmarshal(text, p) // members that it does not have stay zero
	} else if strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") {
		const shown = 500
		p.Detail = strings.TrimSpace(string(text[:min(len(text), shown)]))
	}
	p.Status = int64(response.StatusCode)
	return p
}

func isJSONMedia(response *http.Response) bool {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return strings.HasSuffix(media, "json")
}

// encodeBody writes a body without escaping characters for HTML, so that arguments arrive as they were written.
func encodeBody(body any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
