package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// gatewayWorld is a server that gateways ask.
type gatewayWorld struct {
	t     *testing.T
	s     *server
	db    *postgres.DB
	proxy *faultproxy.Proxy // to the server's database
	stop  func()
	keys  map[string]string // by agent
	envoy authv3.AuthorizationClient
	conn  *grpc.ClientConn
}

func newGatewayWorld(t *testing.T, change func(*serverSettings)) *gatewayWorld {
	t.Helper()
	w := &gatewayWorld{t: t, keys: map[string]string{}}
	w.s, w.db, w.stop = openEdge(t, func(settings *serverSettings) {
		w.proxy = faultproxy.Start(t, settings.DatabaseURL)
		settings.DatabaseURL = w.proxy.URL()
		settings.Gateways = cli.Gateways{Addr: "127.0.0.1:0", Drafts: []string{cli.AccessRequests, cli.ExtMcp}}
		if change != nil {
			change(settings)
		}
	})
	var spec agent.Spec
	check(t, json.Unmarshal([]byte(`{"skills":[{"name":"mail","transport":"gate","approval_timeout":"1h","trust_new_tools":true},{"name":"chat","transport":"gate"}],
		"agents":[{"name":"edge","skills":[{"skill":"mail"}]},{"name":"other","skills":[{"skill":"mail"}]},
			{"name":"two","skills":[{"skill":"mail"},{"skill":"chat"}]}]}`), &spec))
	_, err := w.s.runtime.Agents.Apply(t.Context(), audit.System(), spec, false)
	check(t, err)
	for _, name := range []string{"edge", "other", "two"} {
		a, err := w.s.runtime.Agents.AgentByName(t.Context(), name)
		check(t, err)
		_, w.keys[name], err = w.s.runtime.Agents.CreateKey(t.Context(), audit.System(), a.ID)
		check(t, err)
	}
	w.conn = w.dial(insecure.NewCredentials())
	w.envoy = authv3.NewAuthorizationClient(w.conn)
	return w
}

func (w *gatewayWorld) dial(how credentials.TransportCredentials) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient(w.s.gatewaysAddr.String(), grpc.WithTransportCredentials(how))
	check(w.t, err)
	w.t.Cleanup(func() { check(w.t, conn.Close()) })
	return conn
}

func (w *gatewayWorld) moveClock(by string) {
	w.t.Helper()
	_, err := w.db.Pool().Exec(w.t.Context(), `UPDATE clock_offset SET value = $1::text::interval`, by)
	check(w.t, err)
}

// addReviewer adds a reviewer with the address NAME@example.com.
func (w *gatewayWorld) addReviewer(name string) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	_, err := w.db.Pool().Exec(w.t.Context(), `INSERT INTO people (id, issuer, subject, name, email, verified_email, claimed_roles)
		VALUES ($1, 'https://id.example.com', $2, $3, $4, $4, '{reviewer}')`, id, "sub-"+name, name, name+"@example.com")
	check(w.t, err)
	return id
}

// decideAs approves a call, with other arguments if there are any.
func (w *gatewayWorld) decideAs(by, id uuid.UUID, approve bool, arguments string) error {
	w.t.Helper()
	waiting, err := w.s.runtime.Calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	d := call.Decision{CallID: id, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: "because", By: by}
	if arguments != "" {
		d.Arguments = json.RawMessage(arguments)
	}
	_, err = w.s.runtime.Calls.Decide(w.t.Context(), d)
	return err
}

func (w *gatewayWorld) decide(id uuid.UUID, approve bool) {
	w.t.Helper()
	check(w.t, w.decideAs(uuid.New(), id, approve, ""))
}

// newestParked returns the call that was parked last.
func (w *gatewayWorld) newestParked() uuid.UUID {
	w.t.Helper()
	var id uuid.UUID
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT id FROM calls WHERE status = 'parked' ORDER BY created_at DESC, id DESC LIMIT 1`).Scan(&id))
	return id
}

func (w *gatewayWorld) countCalls() (n int) {
	w.t.Helper()
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT count(*) FROM calls`).Scan(&n))
	return n
}

const sendMail = `{"jsonrpc":"2.0","id":"r-1","method":"tools/call","params":{"name":"send","arguments":{"to":"bob","n":1}}}`

// newCheck returns the question that Envoy asks about a message with pack_as_bytes.
func newCheck(message string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Id: "made-by-the-client", Method: "POST", Scheme: "https", Host: "mcp.example.com", Path: "/mcp?tenant=1", RawBody: []byte(message),
			Headers: map[string]string{"content-type": "application/json", ":method": "POST"}, Size: int64(len(message)), Protocol: "HTTP/2",
		}},
	}}
}

// ask asks as Envoy. It reports whether the request passes, and what its client gets if not.
func (w *gatewayWorld) ask(key string, q *authv3.CheckRequest) (passed bool, status int, body string) {
	w.t.Helper()
	a, err := w.envoy.Check(metadata.AppendToOutgoingContext(w.t.Context(), "authorization", "Bearer "+key), q)
	check(w.t, err)
	if a.GetStatus().GetCode() == 0 {
		if a.GetOkResponse() == nil {
			w.t.Fatalf("passed without an ok_response: %v", a)
		}
		return true, 0, ""
	}
	denied := a.GetDeniedResponse()
	if len(denied.GetHeaders()) != 1 || denied.GetHeaders()[0].GetHeader().GetKey() != "content-type" {
		w.t.Errorf("the headers: %v", denied.GetHeaders())
	}
	return false, int(denied.GetStatus().GetCode()), denied.GetBody()
}

// mustRefuse asks as Envoy about a request that must not pass.
func (w *gatewayWorld) mustRefuse(why, key string, q *authv3.CheckRequest) string {
	w.t.Helper()
	passed, status, body := w.ask(key, q)
	if passed || status != http.StatusForbidden {
		w.t.Errorf("%s: passed %t, status %d", why, passed, status)
	}
	return body
}

// TestEnvoyPassesAnApprovedCallOnce: a call that is approved after 20 minutes passes once when the agent repeats it, and no other one does.
func TestEnvoyPassesAnApprovedCallOnce(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	edge := w.keys["edge"]
	if body := w.mustRefuse("undecided", edge, newCheck(sendMail)); !strings.Contains(body, "make the same call again") {
		t.Errorf("the agent is told: %s", body)
	}
	id := w.newestParked()
	c, err := w.s.runtime.Calls.Get(t.Context(), call.Viewer{}, id)
	check(t, err)
	if !strings.HasPrefix(c.Binding().Directory, "https://mcp.example.com/mcp?sha256=") || strings.Contains(c.Binding().Directory, "tenant") {
		t.Errorf("the address is %s", c.Binding().Directory)
	}
	w.moveClock("20 minutes")
	w.decide(id, true)
	elsewhere, subject := newCheck(sendMail), newCheck(sendMail)
	elsewhere.Attributes.Request.Http.Path = "/mcp?tenant=2"
	subject.Attributes.Source = &authv3.AttributeContext_Peer{Principal: "spiffe://example.com/eve"}
	w.mustRefuse("other bytes", edge, newCheck(strings.Replace(sendMail, `"n":1`, `"n":1.0`, 1)))
	w.mustRefuse("another order", edge, newCheck(strings.Replace(sendMail, `"to":"bob","n":1`, `"n":1,"to":"bob"`, 1)))
	w.mustRefuse("another tool", edge, newCheck(strings.Replace(sendMail, `"send"`, `"Send"`, 1)))
	w.mustRefuse("another address", edge, elsewhere)
	w.mustRefuse("another subject", edge, subject)
	w.mustRefuse("another agent", w.keys["other"], newCheck(sendMail))
	w.mustRefuse("no agent", "hpa_unknown", newCheck(sendMail))

	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 { // with other ids, and white space that no server sees
		all.Go(func() {
			if ok, _, _ := w.ask(edge, newCheck(strings.Replace(sendMail, `{"to"`, "{ \n\"to\"", 1))); ok {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 1 {
		t.Errorf("passed %d times", passed.Load())
	}
	w.mustRefuse("a replay", edge, newCheck(sendMail))
	w.decide(w.newestParked(), false)
	if body := w.mustRefuse("rejected", edge, newCheck(sendMail)); !strings.Contains(body, "because") {
		t.Errorf("the agent is told: %s", body)
	}
}

// TestEnvoyTellsTheModel: where the proxy lets it, a refused tool call gets a result, and other requests pass.
func TestEnvoyTellsTheModel(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	edge := w.keys["edge"]
	q := newCheck(sendMail)
	q.Attributes.ContextExtensions = map[string]string{"holdpoint-denied": "result", "holdpoint-skill": "mail"}
	_, status, body := w.ask(edge, q)
	var answer struct {
		ID     string
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	check(t, json.Unmarshal([]byte(body), &answer))
	if status != http.StatusOK || answer.ID != "r-1" || !answer.Result.IsError || !strings.Contains(answer.Result.Content[0].Text, "waiting for approval") {
		t.Errorf("%d %s", status, body)
	}
	q.Attributes.ContextExtensions["holdpoint-skill"] = "none"
	if passed, _, _ := w.ask(edge, q); passed {
		t.Error("a call of an unknown skill passed")
	}
	q.Attributes.ContextExtensions = map[string]string{"holdpoint-subject-header": "x-user"}
	w.mustRefuse("no user", edge, q)
	q.Attributes.Request.Http.Headers["x-user"] = "Rita@Example.com"
	w.mustRefuse("undecided", edge, q)
	if err := w.decideAs(w.addReviewer("rita"), w.newestParked(), true, ""); !errors.Is(err, approval.ErrSelfApproval) {
		t.Errorf("the user decided about the user's own call: %v", err)
	}
	if body := w.mustRefuse("one of two skills", w.keys["two"], newCheck(sendMail)); !strings.Contains(body, "skill and tool: must be") {
		t.Errorf("the gateway is told: %s", body)
	}
	raw := newCheck(sendMail)
	raw.Attributes.Request.Http.Headers = nil
	raw.Attributes.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "x-envoy-auth-partial-body", RawValue: []byte("true")}}}
	w.mustRefuse("a partial body", edge, raw)
	get := newCheck("")
	get.Attributes.Request.Http.Method = "GET"
	for _, other := range []*authv3.CheckRequest{get, newCheck(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), newCheck(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)} {
		if passed, _, body := w.ask(edge, other); !passed {
			t.Errorf("%s did not pass: %s", other.GetAttributes().GetRequest().GetHttp().GetRawBody(), body)
		}
		w.mustRefuse("a request of an unknown gateway", "", other)
	}
}

// TestNothingPassesWithoutHoldpoint: no request passes while the database or the server is away.
func TestNothingPassesWithoutHoldpoint(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	edge := w.keys["edge"]
	w.mustRefuse("undecided", edge, newCheck(sendMail))
	w.decide(w.newestParked(), true)
	w.proxy.HoldNew()
	w.proxy.CutAll()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+edge), 2*time.Second)
	defer cancel()
	if a, err := w.envoy.Check(ctx, newCheck(sendMail)); err == nil && a.GetStatus().GetCode() == 0 {
		t.Error("a call passed without a database")
	}
	w.proxy.Heal()
	w.stop()
	if a, err := w.envoy.Check(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+edge), newCheck(sendMail)); err == nil {
		t.Errorf("a server that has ended answers %v", a)
	}
}

// evaluate asks as an AuthZEN gateway.
func (w *gatewayWorld) send(method, path, body string, headers ...string) (int, map[string]any) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.s.listener.Addr().String()+path, strings.NewReader(body))
	check(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.keys["edge"])
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	check(w.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(w.t, err)
	if id := r.Header.Get("X-Request-Id"); response.Header.Get("X-Request-Id") != id {
		w.t.Errorf("X-Request-ID %q, not %q", response.Header.Get("X-Request-Id"), id)
	}
	var answer map[string]any
	if len(text) > 0 && strings.Contains(response.Header.Get("Content-Type"), "json") {
		check(w.t, json.Unmarshal(text, &answer))
	}
	return response.StatusCode, answer
}

// evaluate returns the decision about a body, and its context.
func (w *gatewayWorld) evaluate(body string, headers ...string) (bool, map[string]any) {
	w.t.Helper()
	status, answer := w.send(http.MethodPost, "/access/v1/evaluation", body, headers...)
	decision, ok := answer["decision"].(bool)
	if status != http.StatusOK || !ok {
		w.t.Fatalf("%d %v", status, answer)
	}
	details, _ := answer["context"].(map[string]any)
	return decision, details
}

const evaluateMail = `{"subject":{"type":"identity","id":"ann@example.com"},"action":{"name":"tools/call"},"resource":{"type":"tool","id":"send"},` +
	`"context":{"agent":"a","arguments":{"to":"bob","n":1}}}`

// TestAuthZENPassesAnApprovedCallOnce: a call that is approved after 20 minutes passes once; the same request gets the same answer again.
func TestAuthZENPassesAnApprovedCallOnce(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	allowed, details := w.evaluate(evaluateMail, "X-Request-ID", "q1")
	if allowed || details["reason"] != "pending" {
		t.Fatalf("%t %v", allowed, details)
	}
	id := uuid.MustParse(details["evaluation_id"].(string))
	c, err := w.s.runtime.Calls.Get(t.Context(), call.Viewer{}, id)
	check(t, err)
	if s := c.GateOrigin().Subject; s == nil || s.ID != "ann@example.com" || c.PrincipalID != uuid.Nil {
		t.Errorf("the subject is %+v, the principal %s", s, c.PrincipalID)
	}
	w.moveClock("20 minutes")
	if err := w.decideAs(w.addReviewer("ann"), id, true, ""); !errors.Is(err, approval.ErrSelfApproval) {
		t.Errorf("the subject approved its own call: %v", err)
	}
	check(t, w.decideAs(w.addReviewer("bert"), id, true, ""))
	for why, change := range map[string][2]string{
		"other bytes":         {`"n":1`, `"n":1.0`},
		"another subject":     {"ann@", "eve@"},
		"a person's case":     {"ann@", "Ann@"},
		"another kind":        {`"identity"`, `"user"`},
		"another tool":        {`"send"`, `"purge"`},
		"another server":      {`"id":"send"`, `"id":"send","properties":{"server":"b"}`},
		"2^53+1":              {`"n":1`, `"n":9007199254740993`},
		"too many digits":     {`"n":1`, `"n":0.1000000000000000055`},
		"no arguments":        {`"arguments"`, `"parameters"`},
		"arguments in a list": {`"arguments":{"to":"bob","n":1}`, `"arguments":[1]`},
		"another action":      {"tools/call", "Tools/call"},
		"a listed tool":       {"tools/call", "tools/list"},
	} {
		if allowed, details := w.evaluate(strings.Replace(evaluateMail, change[0], change[1], 1), "X-Request-ID", why); allowed {
			t.Errorf("%s passed: %v", why, details)
		}
	}
	if allowed, _ := w.evaluate(evaluateMail, "Authorization", "Bearer "+w.keys["other"]); allowed {
		t.Error("another agent's call passed")
	}
	var passed atomic.Int64
	var all sync.WaitGroup
	names := make(chan string, 8)
	for i := range 8 {
		all.Go(func() {
			name := "repeat-" + string(rune('a'+i))
			if allowed, _ := w.evaluate(evaluateMail, "X-Request-ID", name); allowed {
				passed.Add(1)
				names <- name
			}
		})
	}
	all.Wait()
	if passed.Load() != 1 {
		t.Fatalf("passed %d times", passed.Load())
	}
	name := <-names
	if allowed, details := w.evaluate(evaluateMail, "X-Request-ID", name); !allowed || details["released_until"] == nil {
		t.Errorf("the same request gets another answer: %v", details)
	}
	if allowed, details := w.evaluate(strings.Replace(evaluateMail, "bob", "eve", 1), "X-Request-ID", name); allowed || details["reason"] != "key_reused" {
		t.Errorf("the name of a request passed another call: %v", details)
	}
	w.moveClock("1 hour")
	if allowed, _ := w.evaluate(evaluateMail, "X-Request-ID", name); allowed {
		t.Error("the release has no end")
	}
}

func TestAuthZENProtocol(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	status, document := w.send(http.MethodGet, "/.well-known/authzen-configuration", "", "Authorization", "")
	if status != http.StatusOK || !strings.HasSuffix(document["access_evaluation_endpoint"].(string), "/access/v1/evaluation") || document["access_request_endpoint"] == nil {
		t.Errorf("%d %v", status, document)
	}
	if allowed, _ := w.evaluate(`{"subject":{"type":"identity","id":"a"},"action":{"name":"tools/list"},"resource":{"type":"mcp_server","id":"s"}}`); !allowed {
		t.Error("the list of tools did not pass")
	}
	for why, tc := range map[string]struct {
		status int
		body   string
		header []string
	}{
		"no key":         {401, evaluateMail, []string{"Authorization", ""}},
		"unknown key":    {401, evaluateMail, []string{"Authorization", "Bearer hpa_no"}},
		"no subject":     {400, `{"action":{"name":"tools/call"},"resource":{"type":"tool","id":"send"}}`, nil},
		"no JSON":        {400, `{`, nil},
		"two subjects":   {400, strings.Replace(evaluateMail, `{"subject"`, `{"subject":{"type":"identity","id":"eve"},"subject"`, 1), nil},
		"a large body":   {413, `{"x":"` + strings.Repeat("x", 5<<20) + `"}`, nil},
		"a browser":      {403, evaluateMail, []string{"Origin", "https://evil.example"}},
		"no media type":  {415, evaluateMail, []string{"Content-Type", "text/plain"}},
		"case of member": {400, strings.Replace(evaluateMail, `"subject"`, `"Subject"`, 1), nil},
	} {
		if status, answer := w.send(http.MethodPost, "/access/v1/evaluation", tc.body, tc.header...); status != tc.status || answer["decision"] != nil {
			t.Errorf("%s: %d %v", why, status, answer)
		}
	}
	if n := w.countCalls(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestAccessRequest follows the approval of a call by the access-request profile.
func TestAccessRequest(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	_, details := w.evaluate(evaluateMail)
	evaluation := details["evaluation_id"].(string)
	if hint := details["access_request"].(map[string]any); hint["expires_at"] == nil {
		t.Errorf("the denial: %v", details)
	}
	request := strings.TrimSuffix(evaluateMail, "}") + `,"denial":{"evaluation_id":"` + evaluation + `","expires_at":"2026-11-26T12:00:00Z"}}`
	submit := func(body string, headers ...string) (int, string) {
		status, answer := w.send(http.MethodPost, "/access/v1/requests", body, headers...)
		if problem, ok := answer["type"].(string); ok {
			return status, strings.TrimPrefix(problem, "urn:openid:authzen:access-request:error:")
		}
		task, _ := answer["task"].(map[string]any)
		text, _ := task["status"].(string)
		return status, text
	}
	want := func(status int, text string) func(int, string) {
		return func(gotStatus int, gotText string) {
			t.Helper()
			if gotStatus != status || gotText != text {
				t.Errorf("%d %s, want %d %s", gotStatus, gotText, status, text)
			}
		}
	}
	want(201, "pending")(submit(request, "Idempotency-Key", "k1"))
	want(201, "pending")(submit(request, "Idempotency-Key", "k1"))
	want(400, "invalid_denial_binding")(submit(strings.Replace(request, "bob", "eve", 1), "Idempotency-Key", "k2"))
	want(400, "invalid_denial_binding")(submit(strings.Replace(request, evaluation, uuid.NewString(), 1)))
	want(400, "invalid_denial_binding")(submit(request, "Authorization", "Bearer "+w.keys["other"]))
	want(400, "not_requestable")(submit(strings.Replace(request, `"arguments"`, `"other"`, 1)))
	read := func(path string, method string, headers ...string) (int, map[string]any) {
		return w.send(method, "/access/v1/requests/"+path, "", headers...)
	}
	if status, answer := read(evaluation, "GET", "Authorization", "Bearer "+w.keys["other"]); status != 404 || !strings.HasSuffix(answer["type"].(string), "unknown_task") {
		t.Errorf("another agent reads the task: %d %v", status, answer)
	}

	// A cancelled task stays so; the call is then a new one.
	if status, answer := read(evaluation+"/cancel", "POST"); status != 200 || answer["task"].(map[string]any)["status"] != "cancelled" {
		t.Fatalf("%d %v", status, answer)
	}
	want(410, "expired_denial")(submit(request))
	_, details = w.evaluate(evaluateMail) // tells that it was cancelled
	if details["reason"] == "cancelled" {
		_, details = w.evaluate(evaluateMail)
	}
	second := details["evaluation_id"].(string)
	if second == evaluation {
		t.Fatalf("the cancelled call waits again: %v", details)
	}
	want(409, "duplicate_request")(submit(strings.Replace(request, evaluation, second, 1), "Idempotency-Key", "k1"))
	check(t, w.decideAs(uuid.New(), uuid.MustParse(second), true, ""))
	status, answer := read(second, "GET")
	result, _ := answer["result"].(map[string]any)
	granted, _ := result["approval"].(map[string]any)
	if status != 200 || result["mode"] != "reevaluate" || granted["id"] != second || granted["approved_until"] == nil {
		t.Fatalf("%d %v", status, answer)
	}
	if status, answer := read(second+"/cancel", "POST"); status != 409 || !strings.HasSuffix(answer["type"].(string), "invalid_task_state") {
		t.Errorf("%d %v", status, answer)
	}
	present := func(body, approvalID string) string {
		return strings.Replace(body, `"context":{`, `"context":{"approval":{"id":"`+approvalID+`"},`, 1)
	}
	for why, tc := range map[string]struct{ body, reason, next string }{
		"unknown":     {present(evaluateMail, uuid.NewString()), "approval_unverifiable", "none"},
		"other bytes": {present(strings.Replace(evaluateMail, "bob", "eve", 1), second), "out_of_scope", "request"},
		"cancelled":   {present(evaluateMail, evaluation), "policy_denied", "none"},
	} {
		if allowed, details := w.evaluate(tc.body); allowed || details["reason"] != tc.reason || details["next_action"] != tc.next {
			t.Errorf("%s: %t %v", why, allowed, details)
		}
	}
	if allowed, details := w.evaluate(present(evaluateMail, second), "X-Request-ID", "z1"); !allowed || details["approval"] == nil {
		t.Fatalf("the approval does not count: %v", details)
	}
	if allowed, _ := w.evaluate(present(evaluateMail, second), "X-Request-ID", "z1"); !allowed {
		t.Error("the same request gets another answer")
	}
	if allowed, details := w.evaluate(present(evaluateMail, second), "X-Request-ID", "z2"); allowed || details["reason"] != "approval_expired" || details["access_request"] == nil {
		t.Errorf("the approval counts twice: %v", details)
	}
}

// bytesCodec passes messages as their bytes.
type bytesCodec struct{}

func (bytesCodec) Name() string                  { return "proto" }
func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// askMcp asks as agentgateway. It returns the number of the answer's member (1 pass, 2 mutated, 3 error) and its bytes.
func (w *gatewayWorld) askMcp(key, service, method, params string) (protowire.Number, string) {
	w.t.Helper()
	q := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), service)
	q = protowire.AppendString(protowire.AppendTag(q, 2, protowire.BytesType), method)
	q = protowire.AppendString(protowire.AppendTag(q, 4, protowire.BytesType), params)
	q = protowire.AppendBytes(protowire.AppendTag(q, 5, protowire.BytesType), []byte("\x0a\x01h\x12\x01\xff")) // a header
	var a []byte
	ctx := metadata.AppendToOutgoingContext(w.t.Context(), "authorization", "Bearer "+key)
	check(w.t, w.conn.Invoke(ctx, "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest", &q, &a, grpc.ForceCodec(bytesCodec{})))
	number, _, n := protowire.ConsumeTag(a)
	if n < 0 {
		w.t.Fatalf("the answer is %x", a)
	}
	value, m := protowire.ConsumeBytes(a[n:])
	if m != len(a[n:]) {
		w.t.Fatalf("the answer is %x", a)
	}
	return number, string(value)
}

// TestAgentgateway: an approved call passes once, with the reviewer's edit.
func TestAgentgateway(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	edge := w.keys["edge"]
	const params = `{"name":"send","arguments":{"to":"bob","n":1},"_meta":{"x":1}}`
	want := func(number protowire.Number, text string) func(protowire.Number, string) {
		return func(got protowire.Number, body string) {
			t.Helper()
			if got != number || !strings.Contains(body, text) {
				t.Errorf("member %d: %s", got, body)
			}
		}
	}
	want(3, "waiting for approval")(w.askMcp(edge, "mail", "tools/call", params))
	id := w.newestParked()
	w.mustRefuse("the same call of a proxy that takes no edits", edge, newCheck(sendMail))
	check(t, w.decideAs(uuid.New(), id, true, `{"to":"ben","n":1}`))
	want(3, "waiting")(w.askMcp(edge, "calendar", "tools/call", params))
	want(3, "waiting")(w.askMcp(edge, "mail", "tools/call", strings.Replace(params, "bob", "ben", 1)))
	want(3, "must be written name")(w.askMcp(edge, "mail", "tools/call", strings.Replace(params, `{"name"`, `{"Name":"purge","name"`, 1)))
	want(3, "authenticated")(w.askMcp("", "mail", "tools/list", "{}"))
	want(1, "")(w.askMcp(edge, "mail", "tools/list", "{}"))
	number, mutated := w.askMcp(edge, "mail", "tools/call", params)
	var sent, expected any
	check(t, json.Unmarshal([]byte(`{"name":"send","arguments":{"to":"ben","n":1},"_meta":{"x":1}}`), &expected))
	if number != 2 {
		t.Fatalf("member %d: %s", number, mutated)
	}
	check(t, json.Unmarshal([]byte(mutated), &sent))
	if a, b := mustJSON(t, sent), mustJSON(t, expected); a != b {
		t.Errorf("the server gets %s", a)
	}
	want(3, "waiting")(w.askMcp(edge, "mail", "tools/call", params))
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	return string(text)
}

// TestExtAuthzOverHTTP: a proxy may ask over HTTP, with a key that its client cannot set.
func TestExtAuthzOverHTTP(t *testing.T) {
	t.Parallel()
	w := newGatewayWorld(t, nil)
	key := []string{"X-Agent-API-Key", w.keys["edge"], "Authorization", "Bearer of-the-client"}
	asks := func(path, body string, headers ...string) int {
		status, _ := w.send(http.MethodPost, "/ext-authz/"+path, body, headers...)
		return status
	}
	if status := asks("mail/mcp?a=1", sendMail, key...); status != http.StatusForbidden {
		t.Errorf("undecided: %d", status)
	}
	w.decide(w.newestParked(), true)
	for path, status := range map[string]int{"mail/mcp?a=2": 403, "mail/mcp": 403, "none/mcp?a=1": 403} {
		if got := asks(path, sendMail, key...); got != status {
			t.Errorf("%s: %d", path, got)
		}
	}
	if status := asks("mail/mcp?a=1", sendMail, "Authorization", "Bearer "+w.keys["edge"]); status != http.StatusForbidden {
		t.Errorf("with the client's header: %d", status)
	}
	if first, second := asks("mail/mcp?a=1", sendMail, key...), asks("mail/mcp?a=1", sendMail, key...); first != 200 || second != 403 {
		t.Errorf("%d, then %d", first, second)
	}
}

// TestGatewaysNeedCertificates: with --gateway-client-ca, a gateway without a certificate that is signed by it cannot ask.
func TestGatewaysNeedCertificates(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	check(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	w := newGatewayWorld(t, func(settings *serverSettings) {
		settings.Gateways.Certificate, settings.Gateways.Key, settings.Gateways.ClientCA = certFile, keyFile, certFile
	})
	roots := x509.NewCertPool()
	check(t, func() error {
		c, err := x509.ParseCertificate(der)
		roots.AddCert(c)
		return err
	}())
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	check(t, err)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+w.keys["edge"])
	list := newCheck(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for _, tc := range []struct {
		cfg    *tls.Config
		passes bool
	}{{&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, true}, {&tls.Config{RootCAs: roots}, false}} {
		a, err := authv3.NewAuthorizationClient(w.dial(credentials.NewTLS(tc.cfg))).Check(ctx, list)
		if passed := err == nil && a.GetStatus().GetCode() == 0; passed != tc.passes {
			t.Errorf("passed %t: %v %v", passed, a, err)
		}
	}
	if _, err := w.envoy.Check(ctx, list); err == nil {
		t.Error("a gateway without TLS asked")
	}
}
