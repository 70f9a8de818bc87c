// Package api owns the JSON API under /api/v1 and its OpenAPI document: who may use which
// route, the shapes of requests and answers, and the translation of the
// domain's errors into problems (RFC 9457). It owns no data and decides nothing.
package api

//go:generate go test -run ^TestDocument$ . -update

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config is what an [API] is made of. Fields without a default are needed.
type Config struct {
	Calls     *call.Service
	Figures   *figures.Service
	Agents    *agent.Service
	Catalog   *catalog.Service
	Identity  *identity.Service
	OAuth     *oauthclient.Service
	Notify    *notify.Service
	Callbacks *callback.Service
	// Converse holds conversations. Nil: none are held here. It needs Now, which bounds writes to those who follow one.
	Converse *converse.Service
	Now      func() time.Time

	Audit audit.Database // reads the audit and the approvals, and records who exports it: a pool

	// Failures takes notice of credentials that are not valid. Nil: nobody does.
	Failures *authfail.Log
	// Server is told to operators.
	Server ServerSettings
	// Discovery knows the tools of skills. Nil: the one that Calls asks.
	Discovery *tool.Discovery
	// Logger is told of internal errors. Nil: nobody is.
	Logger *slog.Logger
}

// API is the JSON API.
type API struct {
	calls     *call.Service
	figures   *figures.Service
	agents    *agent.Service
	catalog   *catalog.Service
	identity  *identity.Service
	oauth     *oauthclient.Service
	notify    *notify.Service
	callbacks *callback.Service
	converse  *converse.Service
	now       func() time.Time
	audit     audit.Database
	failures  *authfail.Log
	discovery *tool.Discovery
	log       *slog.Logger
	server    ServerSettings

	mux      *http.ServeMux
	huma     huma.API
	byID     map[string]route
	document []byte
	draining context.Context // ends when streams are to
	drain    context.CancelFunc
}

// New makes the API.
func New(c Config) (*API, error) {
	if c.Calls == nil || c.Figures == nil || c.Agents == nil || c.Catalog == nil || c.Identity == nil || c.OAuth == nil || c.Notify == nil || c.Callbacks == nil || c.Audit == nil {
		return nil, errors.New("make api: Calls, Figures, Agents, Catalog, Identity, OAuth, Notify, Callbacks and Audit are needed")
	}
	if c.Converse != nil && c.Now == nil {
		return nil, errors.New("make api: Converse needs Now")
	}
	if c.Discovery == nil {
		c.Discovery = c.Calls.Discovery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{
		calls: c.Calls, figures: c.Figures, agents: c.Agents, catalog: c.Catalog, identity: c.Identity, oauth: c.OAuth, notify: c.Notify, callbacks: c.Callbacks,
		converse: c.Converse, now: c.Now, audit: c.Audit, failures: c.Failures, discovery: c.Discovery, log: c.Logger, server: c.Server,
		mux: http.NewServeMux(), byID: make(map[string]route),
	}
	a.draining, a.drain = context.WithCancel(context.Background())
	for _, r := range routes() {
		a.byID[r.ID] = r
	}
	a.huma = humago.New(a.mux, humaConfig())
	a.huma.UseMiddleware(checkMediaType, a.authorize, traced)
	if err := a.registerAll(); err != nil {
		return nil, fmt.Errorf("make api: %w", err)
	}
	var err error
	if a.document, err = a.describe(); err != nil {
		return nil, fmt.Errorf("make api: %w", err)
	}
	a.mux.HandleFunc("GET /api/openapi.json", a.serveDocument)
	return a, nil
}

func humaConfig() huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Holdpoint",
				Version:     "1",
				Description: "Agents, skills, connections to them, calls, and the queue of calls that wait for a decision.",
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {
						Type: "http", Scheme: "bearer",
						Description: "A person's token, or an agent's key.",
					},
					"agentKey": {Type: "apiKey", In: "header", Name: agentKeyHeader, Description: "An agent's key."},
				},
			},
			Security: []map[string][]string{{"bearer": {}}, {"agentKey": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": format(), "json": format()},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{fromHuma},
	}
}

// Mount adds the API to a mux.
func (a *API) Mount(mux *http.ServeMux) { mux.Handle("/api/", a) }

// Drain ends the streams of events, and those that begin from now on at once. Call it before
// [http.Server.Shutdown], which waits for open responses.
func (a *API) Drain() { a.drain() }

// ServeHTTP answers a request; one that no route is for, with a problem too.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, pattern := a.mux.Handler(r)
	if pattern != "" {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		a.mux.ServeHTTP(w, r)
		return
	}
	refusal := &refusalWriter{header: w.Header()}
	handler.ServeHTTP(refusal, r)
	if refusal.status == http.StatusMethodNotAllowed {
		writeProblem(w, problem(http.StatusMethodNotAllowed, CodeMethodNotAllowed,
			"%s is not possible here; %s is", r.Method, w.Header().Get("Allow")))
		return
	}
	writeProblem(w, problem(http.StatusNotFound, CodeNotFound, "there is nothing at this path"))
}

// refusalWriter takes the status and the headers of the mux's own refusal, and drops its text.
type refusalWriter struct {
	header http.Header
	status int
}

func (w *refusalWriter) Header() http.Header         { return w.header }
func (w *refusalWriter) WriteHeader(status int)      { w.status = status }
func (w *refusalWriter) Write(b []byte) (int, error) { return len(b), nil }

// checkMediaType refuses bodies that do not say they are JSON.
func checkMediaType(ctx huma.Context, next func(huma.Context)) {
	if value := ctx.Header("Content-Type"); value != "" && ctx.Operation().RequestBody != nil {
		media, _, err := mime.ParseMediaType(value)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			_, w := humago.Unwrap(ctx)
			writeProblem(w, problem(http.StatusUnsupportedMediaType, CodeInvalidRequest,
				"header.Content-Type: expected application/json"))
			return
		}
	}
	next(ctx)
}

// Document is the OpenAPI document, indented.
func (a *API) Document() []byte { return bytes.Clone(a.document) }

func (a *API) describe() ([]byte, error) {
	document := a.huma.OpenAPI()
	schemas := document.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own, which fromHuma replaces
	delete(schemas, "ErrorDetail")
	for _, schema := range schemas {
		for _, property := range schema.Properties {
			if property.Nullable && len(property.Enum) > 0 {
				property.Enum = append(property.Enum, nil) // null is one of them
			}
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	return append(indented.Bytes(), '\n'), nil
}

func (a *API) serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.document) // the client may be gone
}
