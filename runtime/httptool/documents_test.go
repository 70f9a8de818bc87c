package httptool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// shelf serves an OpenAPI document and records the requests for it.
type shelf struct {
	mu       sync.Mutex
	document string
	asked    []http.Header
	answered []int
}

func (s *shelf) put(document string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.document = document
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	etag := fmt.Sprintf(`"%d"`, len(s.document))
	s.asked = append(s.asked, r.Header.Clone())
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		s.answered = append(s.answered, http.StatusNotModified)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.answered = append(s.answered, http.StatusOK)
	_, _ = w.Write([]byte(s.document))
}

func simpleDocument(path string) string {
	return `{"openapi": "3.1.0", "servers": [{"url": "/v1"}], "paths": {"` + path + `": {"get": {"operationId": "it"}}}}`
}

func mustList(t *testing.T, source *httptool.Source, server tool.Server) tool.Listing {
	t.Helper()
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 1 {
		t.Fatalf("%+v, %v", listing, err)
	}
	return listing
}

func TestDocumentByURL(t *testing.T) {
	t.Parallel()
	s := &shelf{document: simpleDocument("/a")}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	source := httptool.New(httptool.Config{Version: "1.2"})
	t.Cleanup(source.Close)
	server := tool.Server{
		Skill: "pets", Transport: tool.OpenAPI, Headers: map[string]string{"X-Key": "secret"}, AuthSecret: "secret",
		API: &tool.API{Spec: web.URL + "/openapi.json", Auth: &tool.APIAuth{Type: tool.APIBearer}},
	}
	first := mustList(t, source, server)
	if b, err := openapi.ReadBinding(&first.Tools[0]); err != nil || b.Base != web.URL+"/v1" {
		t.Errorf("%+v, %v", b, err)
	}
	if again := mustList(t, source, server); again.Tools[0].Pin() != first.Tools[0].Pin() {
		t.Error("another pin of the same document")
	}
	s.put(simpleDocument("/another"))
	if changed := mustList(t, source, server); changed.Tools[0].Pin() == first.Tools[0].Pin() {
		t.Error("the document changed, and the tool did not")
	}
	server.API = &tool.API{Spec: server.API.Spec, Include: []tool.OperationFilter{{Path: "/another"}}}
	mustList(t, source, server) // other settings invalidate the cached definitions
	if got := fmt.Sprint(s.answered); got != "[200 304 200 200]" {
		t.Errorf("answers: %s", got)
	}
	for _, header := range s.asked {
		if header.Get("Authorization") != "" || header.Get("X-Key") != "" || header.Get("User-Agent") != "holdpoint/1.2" {
			t.Errorf("%v", header)
		}
	}
}

func TestDocumentFailures(t *testing.T) {
	t.Parallel()
	endless := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html><body>Sign in")) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/metadata", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	mux.HandleFunc("/private", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 2<<20))) })
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { <-endless })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"openapi": "3.1.0", "servers": [{"url": "https://api.example/v1"}]}`))
	})
	web := httptest.NewServer(mux)
	t.Cleanup(func() { close(endless); web.Close() })
	for name, tc := range map[string]struct {
		url, want string
		kind      tool.FailureKind
		list      time.Duration
	}{
		"not there":       {url: web.URL + "/gone", want: "its server answered 404", kind: tool.TransportFailure},
		"no document":     {url: web.URL + "/html", want: "must be an object with a member openapi", kind: tool.ProtocolFailure},
		"round":           {url: web.URL + "/round", want: "it redirects more than 5 times", kind: tool.TransportFailure},
		"to metadata":     {url: web.URL + "/metadata", want: "never dialled", kind: tool.TransportFailure},
		"to private":      {url: web.URL + "/private", want: "private addresses are not allowed", kind: tool.TransportFailure},
		"metadata":        {url: "http://169.254.169.254/openapi.json", want: "never dialled", kind: tool.TransportFailure},
		"large":           {url: web.URL + "/large", want: "it is larger than 1 MiB", kind: tool.TransportFailure},
		"slow":            {url: web.URL + "/slow", want: "took too long", kind: tool.TransportFailure, list: 50 * time.Millisecond},
		"nobody there":    {url: "http://127.0.0.1:1/openapi.json", want: "connection refused", kind: tool.TransportFailure},
		"another origin":  {url: web.URL + "/elsewhere", want: "server https://api.example/v1: must have the origin of the document: set base_url", kind: tool.ProtocolFailure},
		"secret in query": {url: "http://127.0.0.1:1/?key=geheim", want: "connection refused", kind: tool.TransportFailure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := httptool.New(httptool.Config{Limits: httptool.Limits{DocumentBytes: 1 << 20, List: tc.list}})
			t.Cleanup(source.Close)
			server := tool.Server{Skill: "pets", Transport: tool.OpenAPI, API: &tool.API{Spec: tc.url}}
			_, err := source.List(t.Context(), server)
			failure, ok := errors.AsType[*tool.Failure](err)
			if !ok || failure.Kind != tc.kind || failure.Effect != tool.EffectNone || !strings.Contains(failure.Message, tc.want) || strings.Contains(failure.Message, "geheim") {
				t.Errorf("got %+v, want %q", err, tc.want)
			}
			_, err = source.Examine(t.Context(), tc.url)
			if name != "another origin" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("examined: %v, want %q", err, tc.want)
			}
		})
	}
}

// Concurrent listings share one read of the document, and a canceled listing does not wait for it.
func TestDocumentsAtOnce(t *testing.T) {
	t.Parallel()
	loads := make(chan struct{}, 100)
	source := httptool.New(httptool.Config{Document: func(context.Context, string) ([]byte, error) {
		loads <- struct{}{}
		return []byte(pets), nil
	}})
	t.Cleanup(source.Close)
	server := tool.Server{Skill: "pets", Transport: tool.OpenAPI, API: &tool.API{Document: "00", Origins: []string{"https://pets.example:443"}}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if listing, err := source.List(t.Context(), server); err != nil || len(listing.Tools) != 2 {
				t.Errorf("%+v, %v", listing, err)
			}
		})
	}
	all.Wait()
	if len(loads) != 1 {
		t.Errorf("the document was loaded %d times", len(loads))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	server.API = &tool.API{Document: "01"}
	if _, err := source.List(ctx, server); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("given up: %v", err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	source, server := openDocument(t, pets)
	var steps []string
	tell := func(s tool.Step) { steps = append(steps, fmt.Sprintf("%s: %s, %v", s.Name, s.Detail, s.Err)) }
	if err := source.Probe(t.Context(), server, tell); err != nil {
		t.Error(err)
	}
	server.API = &tool.API{Document: "00"}
	if err := source.Probe(t.Context(), server, tell); err == nil {
		t.Error("listing a missing document succeeded")
	}
	want := []string{
		"document: 2 KiB, <nil>", "operations: 2 in the document, 2 tools, <nil>",
		"document: , transport: skill pets: its OpenAPI document cannot be loaded",
	}
	if fmt.Sprint(steps) != fmt.Sprint(want) {
		t.Errorf("%q", steps)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	source, server := openDocument(t, pets)
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 2 || listing.Generation != openapi.Generation {
		t.Errorf("%+v, %v", listing, err)
	}
	if found, err := source.ExamineDocument(t.Context(), []byte(pets)); err != nil || len(found.Operations) != 2 {
		t.Errorf("%+v, %v", found, err)
	}
	server.API.Document = "00"
	if _, err := source.List(t.Context(), server); err == nil || !strings.Contains(err.Error(), "its OpenAPI document cannot be loaded") {
		t.Errorf("unknown document: %v", err)
	}
	server = tool.Server{Skill: "crm", Transport: tool.HTTPAPI, URL: "https://crm.example", API: &tool.API{Endpoints: []tool.Endpoint{{Name: "a", Path: "/a"}}}}
	listing, err = source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 1 || listing.Generation != openapi.Generation {
		t.Errorf("%+v, %v", listing, err)
	}
	server.URL = ""
	if _, err := source.List(t.Context(), server); err == nil || !strings.Contains(err.Error(), "no base_url") {
		t.Errorf("without a base URL: %v", err)
	}
}
