// Package api owns the JSON API under /api/v1 and its OpenAPI document: the rule of each route, the shapes of requests and
// responses, and the mapping of the services' errors to problems (RFC 9457). It owns no data and makes no decisions.
package api

//go:generate go test -run ^TestDocument$ . -update
//go:generate go generate ../../internal/client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/conversations"
	"github.com/holdpoint/holdpoint/runtime/api/operate"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/api/review"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

// Config has the services of an [API]. Fields without a default are required.
type Config struct {
	Calls     *call.Service
	Figures   *figures.Service
	History   *history.Service
	Agents    *agent.Service
	Trials    *trial.Service
	Catalog   *catalog.Service
	Identity  *identity.Service
	OAuth     *oauthclient.Service
	Notify    *notify.Service
	Callbacks *callback.Service
	// Converse runs conversations. Nil: this server runs none. It needs Now, for the write deadlines of event streams.
	Converse *converse.Service
	Now      func() time.Time

	Retention *retention.Service
	OnCall    *oncall.Service
	Control   *dualcontrol.Service
	Guards    *guarded.Service
	Audit     audit.Database // a pool: reads the audit log and records exports

	// Failures records invalid credentials. Nil: they are not recorded.
	Failures *authfail.Log
	// Server is shown to operators.
	Server operate.ServerSettings
	// Discovery lists the tools of skills. Nil: that of Calls.
	Discovery *tool.Discovery
	// Logger receives internal errors. Nil: they are dropped.
	Logger *slog.Logger
}

// API is the JSON API: it authenticates requests, checks the rules of routes, and maps errors to problems.
type API struct {
	directory *rest.Directory
	review    *review.Handlers
	failures  *authfail.Log
	log       *slog.Logger

	mux      *http.ServeMux
	huma     huma.API
	rules    map[string]rest.Rule   // by operation
	document func() ([]byte, error) // made on the first request for it
	draining context.Context        // ends when event streams have to end
	drain    context.CancelFunc
}

// New makes the API.
func New(c Config) (*API, error) {
	if c.Calls == nil || c.Figures == nil || c.History == nil || c.Agents == nil || c.Trials == nil || c.Catalog == nil || c.Identity == nil || c.OAuth == nil || c.Notify == nil || c.Callbacks == nil || c.Retention == nil || c.OnCall == nil || c.Control == nil || c.Guards == nil || c.Audit == nil {
		return nil, errors.New("make api: Calls, Figures, History, Agents, Trials, Catalog, Identity, OAuth, Notify, Callbacks, Retention, OnCall, Control, Guards and Audit are required")
	}
	if c.Converse != nil && c.Now == nil {
		return nil, errors.New("make api: Converse requires Now")
	}
	if c.Discovery == nil {
		c.Discovery = c.Calls.Discovery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{
		directory: &rest.Directory{Identity: c.Identity, Agents: c.Agents}, failures: c.Failures, log: c.Logger,
		mux: http.NewServeMux(), rules: make(map[string]rest.Rule),
	}
	a.draining, a.drain = context.WithCancel(context.Background())
	a.review = review.New(a.directory, review.Services{
		Calls: c.Calls, Figures: c.Figures, History: c.History, Discovery: c.Discovery, Catalog: c.Catalog, Audit: c.Audit, Logger: c.Logger,
	})
	talk := &conversations.Handlers{
		Directory: a.directory, History: c.History, Catalog: c.Catalog, Converse: c.Converse,
		Now: c.Now, Logger: c.Logger, Draining: a.draining, Authenticate: a.authenticate,
	}
	operation := operate.New(a.directory, operate.Services{
		Calls: c.Calls, Trials: c.Trials, Discovery: c.Discovery, OAuth: c.OAuth, Notify: c.Notify, Callbacks: c.Callbacks,
		Retention: c.Retention, OnCall: c.OnCall, Control: c.Control, Guards: c.Guards, Failures: c.Failures, Server: c.Server,
	})
	a.huma = humago.New(a.mux, humaConfig())
	a.huma.UseMiddleware(checkMediaType, a.authorize, joinTrace)
	for _, r := range slices.Concat(a.review.Routes(), talk.Routes(), operation.Routes()) {
		a.rules[r.ID] = r.Rule
		r.Register(a.huma, a.toProblem)
	}
	a.document = sync.OnceValues(a.describeAPI)
	a.mux.HandleFunc("GET /api/openapi.json", a.serveDocument)
	return a, nil
}

// ExportCalls starts an export for a person who may see all calls.
func (a *API) ExportCalls(ctx context.Context, by audit.Actor, f history.Filter, format string) (http.Handler, error) {
	return a.review.ExportCalls(ctx, by, f, format)
}

// ExportAudit starts an export of audit events, newest first, as JSON Lines. The event about the export is the first, if the
// filter selects it.
func (a *API) ExportAudit(ctx context.Context, by audit.Actor, f audit.Filter) (http.Handler, error) {
	return a.review.ExportAudit(ctx, by, f)
}

func humaConfig() huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Holdpoint",
				Version:     "1",
				Description: "Agents, skills and their connections, calls, and the queue of calls that wait for a decision.",
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", nameSchema),
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
		Formats:                      map[string]huma.Format{"application/json": bodyFormat(), "json": bodyFormat()},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{fromHuma},
	}
}

// nameSchema names a schema after its Go type. The spec of a rule would have the name of the spec of everything.
func nameSchema(t reflect.Type, hint string) string {
	switch t {
	case reflect.TypeFor[rule.Spec]():
		return "RuleSpec"
	case reflect.TypeFor[policy.Spec]():
		return "PolicySpec"
	case reflect.TypeFor[policy.Alternative]():
		return "PolicySpecAlternative"
	case reflect.TypeFor[policy.Line]():
		return "PolicySpecLine"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// Mount adds the API to a mux.
func (a *API) Mount(mux *http.ServeMux) { mux.Handle("/api/", a) }

// Drain ends all event streams, and later ones at once. Call it before [http.Server.Shutdown], which waits for open responses.
func (a *API) Drain() { a.drain() }

// ServeHTTP serves a request. Unknown paths and methods get a problem too.
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
		writeProblem(w, rest.NewProblem(http.StatusMethodNotAllowed, rest.CodeMethodNotAllowed,
			"%s is not possible here; %s is", r.Method, w.Header().Get("Allow")))
		return
	}
	writeProblem(w, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "there is nothing at this path"))
}

// refusalWriter keeps the status and the headers of the mux's own refusal and drops its text.
type refusalWriter struct {
	header http.Header
	status int
}

func (w *refusalWriter) Header() http.Header         { return w.header }
func (w *refusalWriter) WriteHeader(status int)      { w.status = status }
func (w *refusalWriter) Write(b []byte) (int, error) { return len(b), nil }

// checkMediaType refuses bodies that are not declared as JSON.
func checkMediaType(ctx huma.Context, next func(huma.Context)) {
	if value := ctx.Header("Content-Type"); value != "" && ctx.Operation().RequestBody != nil {
		media, _, err := mime.ParseMediaType(value)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			_, w := humago.Unwrap(ctx)
			writeProblem(w, rest.NewProblem(http.StatusUnsupportedMediaType, rest.CodeInvalidRequest,
				"header.Content-Type: must be application/json"))
			return
		}
	}
	next(ctx)
}

// describeAPI returns the OpenAPI document, indented.
func (a *API) describeAPI() ([]byte, error) {
	document := a.huma.OpenAPI()
	describeAgentPaths(document)
	schemas := document.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // fromHuma replaces huma's own errors
	delete(schemas, "ErrorDetail")
	for _, schema := range schemas {
		for _, property := range schema.Properties {
			if property.Nullable && len(property.Enum) > 0 {
				property.Enum = append(property.Enum, nil)
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
	text, err := a.document()
	if err != nil {
		a.log.Error("serve the OpenAPI document", "error", err)
		http.Error(w, fault.InternalText, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may be gone
}
