package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/providertest"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/api/review"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
	"github.com/holdpoint/holdpoint/ui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// fakeSource adds to a skill server the steps of probes, the requests of HTTP APIs, and connections.
type fakeSource struct {
	runtimetest.Source

	own map[string][]string // tools by skill name, for skills that do not offer Tools
	// before returns the state before a call of an HTTP API, or nil if it cannot be read.
	before func(tool.Server, tool.CallRequest) (*tool.State, error)
	steps  []tool.Step   // of a probe
	gate   chan struct{} // if set, each step after the first waits until it is closed
	oauth  *oauthclient.Service
}

// Ready asks for a connection as the real Source does.
func (f *fakeSource) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	err := f.oauth.Handler(skillauth.Target(server)).Ready(ctx)
	if needs, ok := errors.AsType[*oauthclient.NeedsConnectionError](err); ok {
		return &tool.Connect{Reason: needs.Reason, Scopes: needs.Scopes}, nil
	}
	return nil, err
}

func (f *fakeSource) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	f.Lock()
	own, ok := f.own[server.Skill]
	f.Unlock()
	if ok {
		return runtimetest.ParseTools(own...)
	}
	return f.Source.List(ctx, server)
}

func saved(r tool.CallRequest) (tool.Result, error) {
	return tool.Result{
		Raw:      json.RawMessage(`{"content":[{"type":"text","text":"Saved 2 rows to /srv/shared/invoices.csv"}]}`),
		Exchange: tool.Exchange{Sent: int64(len(r.Arguments)), Received: 71, Steps: []tool.Step{{Name: "call", Took: 1800 * time.Microsecond}}},
	}, nil
}

// Probe reports the steps that the test set.
func (f *fakeSource) Probe(_ context.Context, _ tool.Server, step func(tool.Step)) error {
	f.Lock()
	steps, gate := f.steps, f.gate
	f.Unlock()
	for i, s := range steps {
		if i > 0 && gate != nil {
			<-gate
		}
		if step(s); s.Err != nil {
			return s.Err
		}
	}
	return nil
}

// Outgoing returns a PATCH of the argument order with the other arguments, as of an HTTP API.
func (f *fakeSource) Outgoing(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Arguments, &members); err != nil {
		return nil, err
	}
	var order string
	if err := json.Unmarshal(members["order"], &order); err != nil || order == ".." {
		return nil, &tool.Failure{Kind: tool.ToolError, Effect: tool.EffectNone, Message: "argument order: must be a part of a path"}
	}
	o := &tool.Outgoing{Method: http.MethodPatch, URL: server.URL + "/orders/" + url.PathEscape(order) + "?notify=true", Headers: []tool.OutgoingHeader{
		{Name: "Accept", Value: "application/json"}, {Name: "Authorization", Secret: true}, {Name: "Content-Type", Value: "application/json"},
	}}
	if media, ok := members["media"]; ok {
		check := json.Unmarshal(media, &o.Headers[2].Value)
		o.Body = members["body"]
		return o, check
	}
	delete(members, "order")
	if len(members) == 0 {
		o.Method = http.MethodDelete
		return o, nil
	}
	var err error
	o.Body, err = json.Marshal(members)
	return o, err
}

func (f *fakeSource) Before(_ context.Context, server tool.Server, r tool.CallRequest) (*tool.State, error) {
	f.Lock()
	before := f.before
	f.Unlock()
	if before == nil {
		return nil, &tool.Failure{Kind: tool.TransportFailure, Message: "no answer in time"}
	}
	return before(server, r)
}

func (f *fakeSource) set(change func()) {
	f.Lock()
	defer f.Unlock()
	change()
}

const (
	saveTool = `{"name":"save_csv","title":"Save CSV","description":"Save rows as a CSV file in the shared folder.\nAn existing file is replaced.",
		"inputSchema":{"type":"object","properties":{"filename":{"type":"string"},"rows":{"type":"array"},"password":{"type":"string"},"token_options":{"type":"object"}},"required":["filename"]},
		"annotations":{"openWorldHint":false}}`
	deleteTool = `{"name":"delete_file","description":"Delete a file for good.","inputSchema":{"type":"object"},
		"annotations":{"destructiveHint":true}}`
	echoTool = `{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
)

// world is a running gate with a dashboard, an agent and two skills on a fake server.
type world struct {
	control   *dualcontrol.Service // off
	guards    *guarded.Service
	vouched   chan string // providers whose sign-ins looked up managed skills
	t         *testing.T
	shift     time.Duration // offset of its clocks
	db        *worldtest.DB
	source    *fakeSource
	registry  *runtimetest.Registry
	discovery *tool.Discovery
	agents    *agent.Service
	trials    *trial.Service
	catalog   *catalog.Service
	calls     *call.Service
	figures   *figures.Service
	files     *file.Service
	people    *identity.Service
	idp       *providertest.Provider // nil if there is none
	oauth     *oauthclient.Service
	notify    *notify.Service
	oncall    *oncall.Service
	callbacks *callback.Service
	retention *retention.Service
	talks     *converse.Service
	model     *talker
	agent     *agent.Agent
	settings  ui.Server
	ui        *ui.UI
	mux       *http.ServeMux
	server    *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, nil, nil)
}

// deciders lists the people who may decide a call. Nil: that is not known.
type deciders func(context.Context, *approval.Approval) ([]uuid.UUID, error)

// newWorldWith returns a world with an identity provider and the people who may decide calls.
func newWorldWith(t *testing.T, idp *providertest.Provider, list deciders) *world {
	t.Helper()
	w := bareWorld(t, idp, 0, list)
	w.register()
	w.startDashboard(slog.New(slog.DiscardHandler), "")
	return w
}

// bareWorld has no agents, skills or dashboard. Its clocks are ahead by shift.
func bareWorld(t *testing.T, idp *providertest.Provider, shift time.Duration, list deciders) *world {
	t.Helper()
	var issuers []string
	if idp != nil {
		issuers = []string{idp.URL}
	}
	w := &world{idp: idp, t: t, shift: shift, vouched: make(chan string, 100), db: worldtest.NewDB(t), model: &talker{}, source: &fakeSource{}}
	w.source.Offer(saveTool, deleteTool, echoTool)
	w.source.Answer(saved)
	log := slog.New(slog.DiscardHandler)
	if shift != 0 {
		w.db.Exec(`UPDATE clock_offset SET value = $1`, shift)
	}
	box := runtimetest.NewBox(t)
	apis := httptool.New(httptool.Config{Document: func(ctx context.Context, digest string) ([]byte, error) { return w.trials.Document(ctx, digest) }})
	t.Cleanup(apis.Close)
	var err error
	w.control, err = dualcontrol.New(dualcontrol.Config{
		Pool: w.db.Pool(), Box: box, MayBeOne: identity.MayBeOne,
		Operators: func(ctx context.Context, db postgres.Querier) ([]uuid.UUID, error) {
			return w.people.ListOperators(ctx, db)
		},
	})
	check(t, err)
	w.people, err = identity.New(identity.Config{
		Pool: w.db.Pool(), Issuers: issuers, Control: w.control, Logger: log, Now: w.now,
		SessionsEnded: func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
			return w.notify.SessionsEnded(ctx, tx, sessions)
		},
	})
	check(t, err)
	// Authorization servers redirect to the dashboard, so its address must be known first.
	w.mux = http.NewServeMux()
	w.server = httptest.NewServer(w.mux)
	w.oauth, err = oauthclient.New(oauthclient.Config{
		Pool: w.db.Pool(), Box: box, Identity: w.people, Logger: log, Now: w.now, PublicURL: w.server.URL,
		Target: func(ctx context.Context, key oauthclient.Key) (oauthclient.Target, error) {
			_, server, err := w.agents.FreshSkill(ctx, key.SkillID)
			if errors.Is(err, agent.ErrNotFound) {
				err = oauthclient.ErrNotFound
			}
			return skillauth.Target(server.For(key.Principal)), err
		},
		Managed: func(_ context.Context, issuer, clientID string) ([]uuid.UUID, error) {
			w.vouched <- issuer + " " + clientID
			return nil, nil
		},
		Connected: func(ctx context.Context, tx pgx.Tx, key oauthclient.Key) error {
			return w.calls.ResumeConnected(ctx, tx, key.SkillID)
		},
	})
	check(t, err)
	w.source.oauth = w.oauth
	w.notify, err = notify.New(notify.Config{
		TrustedHosts: []string{"127.0.0.1"},
		Pool:         w.db.Pool(), Box: box, Identity: w.people, Logger: log, Now: w.now, PublicURL: w.server.URL,
		Waiting: func(context.Context, []uuid.UUID) (pending, unreviewed []uuid.UUID, err error) { return nil, nil, nil },
	})
	check(t, err)
	w.guards, err = guarded.New(guarded.Config{
		Pool: w.db.Pool(), Logger: log, Now: w.now, Alert: func(context.Context, pgx.Tx, guarded.Alert) error { return nil },
	})
	check(t, err)
	w.oncall = &oncall.Service{Pool: w.db.Pool(), Box: box, Logger: log, Now: w.now, TrustedHosts: []string{"127.0.0.1"}}
	w.retention, err = retention.New(retention.Config{Pool: w.db.Pool(), Logger: log, Now: w.now})
	check(t, err)
	w.callbacks, err = callback.New(callback.Config{Pool: w.db.Pool(), Box: box, Logger: log, Now: w.now, TrustedHosts: []string{"127.0.0.1"}})
	check(t, err)
	w.registry = runtimetest.NewRegistry(t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source, tool.OpenAPI: apiSources{apis, w.source}, tool.HTTPAPI: apis, tool.Gate: host.Source{}}, Now: w.now,
		Agent: agent.Config{Box: box, Control: w.control, Stdio: tool.StdioPolicy{On: true, Allow: [][]string{{}}}, SkillDeleted: w.oauth.Removed},
	})
	w.discovery, w.agents, w.catalog = w.registry.Discovery, w.registry.Agents, w.registry.Catalog
	w.trials, err = trial.New(trial.Config{Pool: w.db.Pool(), Agents: w.agents, Discovery: w.discovery, Box: box, Examiner: apis})
	check(t, err)
	t.Cleanup(func() {
		w.oauth.Close()
		w.notify.Close()
		w.callbacks.Close()
		w.people.Close()
	})
	w.startCalls(log, list)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(w.shift) }

func (w *world) startCalls(log *slog.Logger, list deciders) {
	w.t.Helper()
	var err error
	w.files, err = file.New(file.Config{
		Pool: w.db.Pool(), Bucket: runtimetest.NewBucket(w.t, w.t.TempDir()), PublicURL: w.server.URL, Logger: log, Now: w.now,
		Open: func(ctx context.Context, id uuid.UUID) (bool, error) { return w.calls.CanDownload(ctx, id) },
	})
	check(w.t, err)
	w.files.Mount(w.mux)
	w.t.Cleanup(func() { check(w.t, w.files.Close()) })
	instance := uuid.New()
	w.calls, err = call.New(call.Config{
		Pool: w.db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: log, Now: w.now, Instance: instance, Files: w.files, ListDeciders: list,
		Publish: func(batch *pgx.Batch, condition string, list []call.Happening) error {
			return w.talks.Publish(batch, condition, list)
		},
		CancelCarried: func(ctx context.Context, c *call.Call) error { return w.talks.CancelAsked(ctx, c) },
	})
	check(w.t, err)
	w.figures, err = figures.New(figures.Config{Pool: w.db.Pool(), Agents: w.agents})
	check(w.t, err)
	w.talks, err = converse.New(converse.Config{
		Pool: w.db.Pool(), Agents: w.agents, Catalog: w.catalog, Calls: w.calls, Files: w.files, Logger: log, Now: w.now, Instance: instance,
		Provider: func(agent.ModelSpec) (model.Provider, error) { return w.model, nil },
	})
	check(w.t, err)
	client := w.db.NewQueue(log, instance, map[string]int{river.QueueDefault: 5, call.ExecuteQueue: 20, converse.JobQueue: 20},
		w.calls, w.figures, w.talks, w.oauth)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	w.oauth.Start(client)
	w.figures.Start(client)
	check(w.t, w.calls.Start(ctx, client))
	w.talks.Start(ctx, client)
	check(w.t, client.Start(ctx))
	stopListening := w.db.Handle(map[postgres.Channel]func(string){
		call.Channel: w.calls.HandleNotification, converse.Channel: w.talks.HandleNotification,
		oauthclient.Channel: func(string) { w.oauth.Invalidate() },
		registry.Channel: func(payload string) {
			w.people.Invalidate()
			w.registry.Invalidate(payload)
		},
	}, func() {
		w.calls.CatchUp()
		w.talks.CatchUp()
	})
	w.t.Cleanup(func() {
		ctx := context.WithoutCancel(w.t.Context())
		w.talks.Drain()
		check(w.t, client.Stop(ctx))
		w.talks.Close()
		check(w.t, w.calls.Stop(ctx))
		stop()
		stopListening()
	})
}

func (w *world) register() {
	w.t.Helper()
	timeout := agent.Duration(5 * time.Minute)
	w.registry.ApplyTwoSkills(func(files *agent.SkillSpec) { files.ApprovalTimeout = &timeout }, agent.AgentSpec{Name: "billing"})
	w.agent = w.registry.Agent("billing")
}

// startDashboard serves the dashboard. A public URL replaces that of the test server.
func (w *world) startDashboard(log *slog.Logger, publicURL string) {
	w.t.Helper()
	mux, server := w.mux, w.server
	if publicURL == "" {
		publicURL = server.URL
	} else {
		mux = http.NewServeMux()
		server = httptest.NewServer(mux)
	}
	var providers []*provider.Provider
	if w.idp != nil {
		providers = append(providers, w.providerAt(publicURL))
	}
	exports := review.New(&rest.Directory{Identity: w.people, Agents: w.agents}, review.Services{
		Calls: w.calls, History: history.New(w.calls), Audit: w.db.Pool(), Logger: log,
	})
	dashboard, err := ui.New(ui.Config{
		Providers: providers,
		Calls:     w.calls, Figures: w.figures, History: history.New(w.calls), Agents: w.agents, Trials: w.trials, Catalog: w.catalog, Discovery: w.discovery, Identity: w.people, OAuth: w.oauth, Notify: w.notify, OnCall: w.oncall, Control: w.control, Guards: w.guards, Callbacks: w.callbacks, Converse: w.talks, Exports: exports, Holds: w.retention.Holds, Pool: w.db.Pool(),
		PublicURL: publicURL, Logger: log, Now: w.now, Server: w.settings,
	})
	check(w.t, err)
	dashboard.Mount(mux)
	w.ui, w.server = dashboard, server
	w.t.Cleanup(func() {
		dashboard.Close()
		server.Close()
	})
}

func (w *world) submit(principal uuid.UUID, name, arguments string) uuid.UUID {
	w.t.Helper()
	conversation, entry := w.registry.FindTool(w.agent, principal, name)
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	ticket, err := w.calls.Submit(w.t.Context(), call.Submission{
		Agent: w.agent, PrincipalID: principal, ConversationID: conversation, Entry: entry, Arguments: clean,
	})
	check(w.t, err)
	return ticket.ID
}

func (w *world) createLink(name string, roles ...identity.Role) string {
	w.t.Helper()
	token, err := w.people.CreateSignInLink(w.t.Context(), name, roles, time.Hour)
	check(w.t, err)
	return "/sign-in?token=" + token
}

// visitor is a browser without JavaScript that keeps cookies but follows no redirects.
type visitor struct {
	w      *world
	client *http.Client
}

func (w *world) visitor() *visitor {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	check(w.t, err)
	return &visitor{w: w, client: &http.Client{
		Jar: jar, Transport: w.server.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// signedIn returns a visitor who signed in with a link.
func (w *world) signedIn(name string, roles ...identity.Role) *visitor {
	w.t.Helper()
	v := w.visitor()
	form := v.get(w.createLink(name, roles...)).form("sign-in")
	if a := v.post("/sign-in", form); a.status != http.StatusSeeOther {
		w.t.Fatalf("sign in: status %d: %s", a.status, a.text())
	}
	return v
}

// answer is a parsed page.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
	doc    *goquery.Document
}

func (v *visitor) do(r *http.Request) *answer {
	v.w.t.Helper()
	response, err := v.client.Do(r)
	check(v.w.t, err)
	body, err := io.ReadAll(response.Body)
	check(v.w.t, err)
	check(v.w.t, response.Body.Close())
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(string(body)))
	check(v.w.t, err)
	return &answer{t: v.w.t, status: response.StatusCode, header: response.Header, body: string(body), doc: doc}
}

func (v *visitor) request(method, path, body string, header ...string) *http.Request {
	v.w.t.Helper()
	r, err := http.NewRequestWithContext(v.w.t.Context(), method, v.w.server.URL+path, strings.NewReader(body))
	check(v.w.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (v *visitor) get(path string, header ...string) *answer {
	v.w.t.Helper()
	return v.do(v.request(http.MethodGet, path, "", header...))
}

func (v *visitor) post(path string, form url.Values, header ...string) *answer {
	v.w.t.Helper()
	r := v.request(http.MethodPost, path, form.Encode(), append(header, "Sec-Fetch-Site", "same-origin")...)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(r)
}

// find selects by data-testid.
func (a *answer) find(testID string) *goquery.Selection {
	return a.doc.Find(`[data-testid="` + testID + `"]`)
}

func (a *answer) text() string { return strings.Join(strings.Fields(a.doc.Text()), " ") }

// form returns the fields that the form in this element would send.
func (a *answer) form(testID string) url.Values {
	a.t.Helper()
	form := url.Values{}
	part := a.find(testID)
	if part.Length() == 0 {
		a.t.Fatalf("no %s on the page (status %d): %s", testID, a.status, a.text())
	}
	part.Find("input, textarea").Each(func(_ int, s *goquery.Selection) {
		_, checked := s.Attr("checked")
		if kind := s.AttrOr("type", ""); !checked && (kind == "radio" || kind == "checkbox") {
			return
		}
		form.Set(s.AttrOr("name", ""), s.AttrOr("value", s.Text()))
	})
	return form
}

// answerText makes a skill server answer with this text.
func answerText(text string) func(tool.CallRequest) (tool.Result, error) {
	return func(tool.CallRequest) (tool.Result, error) {
		block, err := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}})
		return tool.Result{Raw: block}, err
	}
}

// personCalled returns the id of the only local person with this name.
func (w *world) personCalled(name string) uuid.UUID {
	w.t.Helper()
	var id uuid.UUID
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT id FROM people WHERE name = $1`, name).Scan(&id))
	return id
}

// exposed returns the tools of a skill by the names that the agent sees.
func (w *world) exposed(skill string) map[string]string {
	w.t.Helper()
	c, err := w.catalog.StartConversation(w.t.Context(), w.agent, uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	names := map[string]string{}
	for _, entry := range c.Catalog.Entries {
		if entry.Skill == skill {
			names[entry.Name] = entry.Tool.Name
		}
	}
	return names
}
