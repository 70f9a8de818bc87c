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
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// documentCache caches the definitions that were made from documents, and the validators of fetched documents. It does not keep documents,
// which are large.
type documentCache struct {
	// reading admits one reader at a time: reading takes several times the bytes of a document.
	reading chan struct{}

	mu      sync.Mutex
	made    map[string]*openapi.Definitions // by definitionsKey
	fetched map[string]validators           // by URL
	order   []string                        // keys of made, the most recently used last
}

// validators let a server tell whether a document changed (RFC 9110, section 8.8).
type validators struct {
	etag, modified string
	digest         string // of the document
}

func (d *documentCache) lockReading(ctx context.Context) error {
	select {
	case d.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *documentCache) unlockReading() { <-d.reading }

// definitionsKey digests all that definitions depend on.
func definitionsKey(digest string, server *tool.Server) string {
	key, err := json.Marshal([]any{digest, server.URL, server.API, server.API.Select, slices.Sorted(maps.Keys(server.Headers))})
	if err != nil {
		return "" // cannot happen: the values came from JSON
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

func (d *documentCache) getMade(key string) *openapi.Definitions {
	d.mu.Lock()
	defer d.mu.Unlock()
	made := d.made[key]
	if made != nil {
		d.order = append(slices.DeleteFunc(d.order, func(k string) bool { return k == key }), key)
	}
	return made
}

func (d *documentCache) putMade(key string, made *openapi.Definitions, limit int) {
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

func (d *documentCache) getValidators(url string) validators {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fetched[url]
}

func (d *documentCache) putValidators(url string, v validators, limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.fetched) >= 4*limit { // mostly of deleted skills
		clear(d.fetched)
	}
	d.fetched[url] = v
}

// findDefinitions returns the definitions of a skill's document from the cache, or makes them.
func (s *Source) findDefinitions(ctx context.Context, server *tool.Server) (*openapi.Definitions, *tool.Failure) {
	doc, failure := s.locateDocument(ctx, server, false)
	if failure != nil {
		return nil, failure
	}
	key := definitionsKey(doc.digest, server)
	if made := s.documents.getMade(key); made != nil {
		return made, nil
	}
	if err := s.documents.lockReading(ctx); err != nil {
		return nil, documentFailure(ctx, server, err)
	}
	defer s.documents.unlockReading()
	if made := s.documents.getMade(key); made != nil { // another request made them in the meantime
		return made, nil
	}
	text, failure := doc.load(ctx)
	if failure != nil {
		return nil, failure
	}
	made, err := openapi.Define(ctx, text, server, s.config.Limits.Definitions)
	if err != nil {
		return nil, documentFailure(ctx, server, err)
	}
	s.documents.putMade(key, made, s.config.Limits.Documents)
	return made, nil
}

// locatedDocument is a document with a known digest.
type locatedDocument struct {
	digest string
	load   func(context.Context) ([]byte, *tool.Failure)
}

// locateDocument finds the current document of a skill. If fresh is set it is fetched even if it did not change.
func (s *Source) locateDocument(ctx context.Context, server *tool.Server, fresh bool) (locatedDocument, *tool.Failure) {
	if server.API.Spec == "" {
		return locatedDocument{server.API.Document, func(ctx context.Context) ([]byte, *tool.Failure) { return s.loadDocument(ctx, server) }}, nil
	}
	known := s.documents.getValidators(server.API.Spec)
	if fresh || known.digest == "" || s.documents.getMade(definitionsKey(known.digest, server)) == nil {
		known = validators{} // an unchanged document would have to be fetched again
	}
	text, now, failure := s.fetchDocument(ctx, server.API.Spec, server.PublicHosts, known)
	if failure != nil {
		failure.Message = "skill " + server.Skill + ": " + failure.Message
		return locatedDocument{}, failure
	}
	s.documents.putValidators(server.API.Spec, now, s.config.Limits.Documents)
	return locatedDocument{now.digest, func(ctx context.Context) ([]byte, *tool.Failure) {
		if text != nil {
			return text, nil
		}
		again, _, failure := s.fetchDocument(ctx, server.API.Spec, server.PublicHosts, validators{}) // the cache dropped its definitions a moment ago
		return again, failure
	}}, nil
}

// loadDocument loads a document that was given by value.
func (s *Source) loadDocument(ctx context.Context, server *tool.Server) ([]byte, *tool.Failure) {
	if s.config.Document == nil || server.API.Document == "" {
		return nil, newFailure(tool.TransportFailure, nil, "skill %s has no OpenAPI document", server.Skill)
	}
	text, err := s.config.Document(ctx, server.API.Document)
	if err != nil {
		return nil, newFailure(tool.TransportFailure, err, "skill %s: its OpenAPI document cannot be loaded", server.Skill)
	}
	if limit := s.config.Limits.DocumentBytes; int64(len(text)) > limit {
		return nil, newFailure(tool.TransportFailure, nil, "skill %s: its OpenAPI document is larger than %d MiB", server.Skill, limit>>20)
	}
	return text, nil
}

// maxReason bounds a reason in a failure, in bytes.
const maxReason = 300

var errTooManyHops = errors.New("it redirects more than 5 times")

// fetchDocument reads the document at an operator's URL, unless it matches the known validators. It sends no secrets and no headers of the skill.
func (s *Source) fetchDocument(ctx context.Context, url string, publicHosts []string, known validators) ([]byte, validators, *tool.Failure) {
	fail := func(err error, format string, args ...any) ([]byte, validators, *tool.Failure) {
		return nil, validators{}, newFailure(tool.TransportFailure, err, "the OpenAPI document cannot be fetched: "+format, args...)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fail(err, "its URL is none")
	}
	request.Header.Set("Accept", "application/vnd.oai.openapi+json, application/json, application/yaml, */*;q=0.5")
	request.Header.Set("User-Agent", "holdpoint/"+s.config.Version)
	if known.etag != "" {
		request.Header.Set("If-None-Match", known.etag)
	}
	if known.modified != "" {
		request.Header.Set("If-Modified-Since", known.modified)
	}
	response, err := s.documentClient(request, publicHosts).Do(request)
	if err != nil {
		return fail(err, "%s", fetchProblem(ctx, err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotModified && known.digest != "" {
		return nil, known, nil
	}
	if response.StatusCode != http.StatusOK {
		return fail(nil, "its server answered %d", response.StatusCode)
	}
	limit := s.config.Limits.DocumentBytes
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return fail(err, "%s", fetchProblem(ctx, err))
	}
	if int64(len(text)) > limit {
		return fail(nil, "it is larger than %d MiB", limit>>20)
	}
	sum := sha256.Sum256(text)
	return text, validators{response.Header.Get("ETag"), response.Header.Get("Last-Modified"), hex.EncodeToString(sum[:])}, nil
}

// documentClient returns a client that follows redirects: within the operator's origin like the URL itself, others to public addresses only.
func (s *Source) documentClient(first *http.Request, publicHosts []string) *http.Client {
	return &http.Client{
		Transport: byOrigin{origin: setting.OriginOf(first.URL), own: s.ownFor(publicHosts, first.URL.Hostname()), foreign: s.foreign},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 5 {
				return errTooManyHops
			}
			r.Header.Del("Referer")
			return nil
		},
	}
}

// byOrigin uses one transport for requests to one origin, and another for all others.
type byOrigin struct {
	origin       string
	own, foreign http.RoundTripper
}

func (t byOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	if setting.OriginOf(r.URL) == t.origin {
		return t.own.RoundTrip(r)
	}
	return t.foreign.RoundTrip(r)
}

// fetchProblem describes why a document could not be fetched.
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
	if cause := errors.Unwrap(err); cause != nil { // of a url.Error, whose URL may have secrets in its query
		err = cause
	}
	return plain.Line(fmt.Sprint(err), maxReason)
}
