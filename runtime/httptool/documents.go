package httptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// documents remembers the definitions that were made of documents, and by what a server knows the document that it sent last. Documents themselves are not kept: they
// are large.
type documents struct {
	// reading lets one document be read at a time: reading takes several times its bytes.
	reading chan struct{}

	mu      sync.Mutex
	made    map[string]*definitions // by definitionsKey
	fetched map[string]validators   // by URL
	order   []string                // keys of made, the one that was used last at the end
}

// validators are by what a server tells whether a document changed (RFC 9110, section 8.8).
type validators struct {
	etag, modified string
	digest         string // of the document
}

func newDocuments() *documents {
	return &documents{reading: make(chan struct{}, 1), made: map[string]*definitions{}, fetched: map[string]validators{}}
}

func (d *documents) lock(ctx context.Context) error {
	select {
	case d.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *documents) unlock() { <-d.reading }

// definitionsKey is all that definitions depend on.
func definitionsKey(digest string, server *tool.Server) string {
	key, err := json.Marshal([]any{digest, server.URL, server.API, server.API.Select, slices.Sorted(maps.Keys(server.Headers))})
	if err != nil {
		return "" // of values that an operator's JSON was read into, there is none
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

func (d *documents) get(key string) *definitions {
	d.mu.Lock()
	defer d.mu.Unlock()
	made := d.made[key]
	if made != nil {
		d.order = append(slices.DeleteFunc(d.order, func(k string) bool { return k == key }), key)
	}
	return made
}

func (d *documents) put(key string, made *definitions, limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[key] == nil {
		d.order = append(d.order, key)
	}
	d.made[key] = made
	for len(d.order) > limit {
		delete(d.made, d.order[0])
		d.order = d.order[1:]
	}
}

func (d *documents) validators(url string) validators {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fetched[url]
}

func (d *documents) remember(url string, v validators, limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.fetched) >= 4*limit { // of skills that are gone, mostly
		clear(d.fetched)
	}
	d.fetched[url] = v
}

// definitions are those of a skill's document, made anew if need be.
func (s *Source) definitions(ctx context.Context, server *tool.Server) (*definitions, *tool.Failure) {
	doc, failure := s.document(ctx, server)
	if failure != nil {
		return nil, failure
	}
	key := definitionsKey(doc.digest, server)
	if made := s.documents.get(key); made != nil {
		return made, nil
	}
	if err := s.documents.lock(ctx); err != nil {
		return nil, documentFailure(ctx, server, err)
	}
	defer s.documents.unlock()
	if made := s.documents.get(key); made != nil { // by somebody else in the meantime
		return made, nil
	}
	text, failure := doc.load(ctx)
	if failure != nil {
		return nil, failure
	}
	made, err := s.read(ctx, text, server)
	if err != nil {
		return nil, documentFailure(ctx, server, err)
	}
	s.documents.put(key, made, s.config.Limits.Documents)
	return made, nil
}

// documentNow is a skill's document, read anew.
func (s *Source) documentNow(ctx context.Context, server *tool.Server) ([]byte, *tool.Failure) {
	if server.API.Spec == "" {
		return s.given(ctx, server)
	}
	text, _, failure := s.fetch(ctx, server.API.Spec, server.PublicHosts, validators{})
	if failure != nil {
		failure.Message = "skill " + server.Skill + ": " + failure.Message
	}
	return text, failure
}

// alone makes definitions while no other document is read.
func (s *Source) alone(ctx context.Context, text []byte, server *tool.Server) (*definitions, error) {
	if err := s.documents.lock(ctx); err != nil {
		return nil, err
	}
	defer s.documents.unlock()
	return s.read(ctx, text, server)
}

func (s *Source) read(ctx context.Context, text []byte, server *tool.Server) (*definitions, error) {
	doc, err := readDocument(ctx, text)
	if err != nil {
		return nil, err
	}
	return define(doc, server, &s.config.Limits)
}

// located is a document of which the digest is known.
type located struct {
	digest string
	load   func(context.Context) ([]byte, *tool.Failure)
}

// document finds out which document a skill has now.
func (s *Source) document(ctx context.Context, server *tool.Server) (located, *tool.Failure) {
	if server.API.Spec == "" {
		return located{server.API.Document, func(ctx context.Context) ([]byte, *tool.Failure) { return s.given(ctx, server) }}, nil
	}
	known := s.documents.validators(server.API.Spec)
	if known.digest == "" || s.documents.get(definitionsKey(known.digest, server)) == nil {
		known = validators{} // what it would say about the document that we know is of no use
	}
	text, now, failure := s.fetch(ctx, server.API.Spec, server.PublicHosts, known)
	if failure != nil {
		failure.Message = "skill " + server.Skill + ": " + failure.Message
		return located{}, failure
	}
	s.documents.remember(server.API.Spec, now, s.config.Limits.Documents)
	return located{now.digest, func(ctx context.Context) ([]byte, *tool.Failure) {
		if text != nil {
			return text, nil
		}
		again, _, failure := s.fetch(ctx, server.API.Spec, server.PublicHosts, validators{}) // what was made of it was forgotten a moment ago
		return again, failure
	}}, nil
}

// given loads the document that was given by value.
func (s *Source) given(ctx context.Context, server *tool.Server) ([]byte, *tool.Failure) {
	if s.config.Document == nil || server.API.Document == "" {
		return nil, failed(tool.TransportFailure, nil, "skill %s has no OpenAPI document", server.Skill)
	}
	text, err := s.config.Document(ctx, server.API.Document)
	if err != nil {
		return nil, failed(tool.TransportFailure, err, "skill %s: its OpenAPI document cannot be loaded", server.Skill)
	}
	if limit := s.config.Limits.DocumentBytes; int64(len(text)) > limit {
		return nil, failed(tool.TransportFailure, nil, "skill %s: its OpenAPI document is larger than %d MiB", server.Skill, limit>>20)
	}
	return text, nil
}

var errTooManyHops = errors.New("it redirects more than 5 times")

// fetch reads the document at an operator's URL, unless it is the one that is known. Nothing but the URL is sent.
func (s *Source) fetch(ctx context.Context, url string, publicHosts []string, known validators) ([]byte, validators, *tool.Failure) {
	wrong := func(err error, format string, args ...any) ([]byte, validators, *tool.Failure) {
		return nil, validators{}, failed(tool.TransportFailure, err, "the OpenAPI document cannot be fetched: "+format, args...)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return wrong(err, "its URL is none")
	}
	request.Header.Set("Accept", "application/vnd.oai.openapi+json, application/json, application/yaml, */*;q=0.5")
	request.Header.Set("User-Agent", "holdpoint/"+s.config.Version)
	if known.etag != "" {
		request.Header.Set("If-None-Match", known.etag)
	}
	if known.modified != "" {
		request.Header.Set("If-Modified-Since", known.modified)
	}
	response, err := s.fetcher(request, publicHosts).Do(request)
	if err != nil {
		return wrong(err, "%s", fetchProblem(ctx, err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotModified && known.digest != "" {
		return nil, known, nil
	}
	if response.StatusCode != http.StatusOK {
		return wrong(nil, "its server answered %d", response.StatusCode)
	}
	limit := s.config.Limits.DocumentBytes
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return wrong(err, "%s", fetchProblem(ctx, err))
	}
	if int64(len(text)) > limit {
		return wrong(nil, "it is larger than %d MiB", limit>>20)
	}
	sum := sha256.Sum256(text)
	return text, validators{response.Header.Get("ETag"), response.Header.Get("Last-Modified"), hex.EncodeToString(sum[:])}, nil
}

// fetcher follows redirects: those within the operator's own origin as the URL itself, others to public addresses only.
func (s *Source) fetcher(first *http.Request, publicHosts []string) *http.Client {
	return &http.Client{
		Transport: byOrigin{origin: originOf(first.URL), own: s.ownFor(publicHosts, first.URL.Hostname()), foreign: s.foreign},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 5 {
				return errTooManyHops
			}
			r.Header.Del("Referer")
			return nil
		},
	}
}

// byOrigin sends requests to one origin by its own transport, all others by another.
type byOrigin struct {
	origin       string
	own, foreign http.RoundTripper
}

func (t byOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	if originOf(r.URL) == t.origin {
		return t.own.RoundTrip(r)
	}
	return t.foreign.RoundTrip(r)
}

// fetchProblem says in plain words what went wrong.
func fetchProblem(ctx context.Context, err error) string {
	var address *outbound.AddressError
	switch {
	case ctx.Err() != nil:
		return "it took too long, or was given up"
	case errors.As(err, &address):
		return plain.Line(address.Error(), maxReason)
	case errors.Is(err, errTooManyHops):
		return errTooManyHops.Error()
	}
	if cause := errors.Unwrap(err); cause != nil { // a url.Error, whose URL may have secrets in its query
		err = cause
	}
	return plain.Line(fmt.Sprint(err), maxReason)
}
