package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const documentFile = "../../docs/openapi.json"

// TestDocument compares docs/openapi.json with the served document.
func TestDocument(t *testing.T) {
	t.Parallel()
	described, err := api.New(api.Config{
		Calls: &call.Service{}, Figures: &figures.Service{}, History: &history.Service{}, Agents: &agent.Service{}, Trials: &trial.Service{}, Catalog: &catalog.Service{}, Identity: &identity.Service{}, OAuth: &oauthclient.Service{}, Notify: &notify.Service{}, Callbacks: &callback.Service{}, Retention: &retention.Service{}, OnCall: &oncall.Service{}, Control: &dualcontrol.Service{}, Guards: &guarded.Service{}, Audit: nobody{},
	})
	check(t, err)
	w := &world{t: t, process: &process{handler: described}}
	served := w.send("GET", "/api/openapi.json", "", "")
	v := served.wantStatus(t, 200)
	if v["openapi"] != "3.1.0" {
		t.Errorf("openapi %v", v["openapi"])
	}
	if *update {
		check(t, os.WriteFile(documentFile, []byte(served.body), 0o644))
	}
	kept, err := os.ReadFile(documentFile)
	check(t, err)
	if string(kept) != served.body {
		t.Error("docs/openapi.json is stale: go generate ./runtime/api")
	}
	for _, rule := range approval.ParkingRules() { // in the description of the insights' nullable member
		if !regexp.MustCompile(`"description": ?"Why the calls were parked: [a-z_, ]*` + string(rule)).MatchString(served.body) {
			t.Errorf("the doc of ApprovalShare.Rule in runtime/api/review/insights.go does not name the rule %s", rule)
		}
	}
	for _, leak := range []string{"ErrorModel", "github.com", "Input", "Output"} {
		if strings.Contains(served.body, leak) {
			t.Errorf("the document contains %s", leak)
		}
	}
}

// nobody is a database that refuses all queries.
type nobody struct{}

func (nobody) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("not asked")
}

func (nobody) Begin(context.Context) (pgx.Tx, error) { return nil, errors.New("not asked") }

func TestProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send("GET", "/api/v1/nothing", w.operator, "").wantProblem(t, 404, "not_found")
	w.send("GET", "/api/", "", "").wantProblem(t, 404, "not_found")
	got := w.send("PUT", "/api/v1/agents", w.operator, `{}`)
	got.wantProblem(t, 405, "method_not_allowed")
	if allow := got.header.Get("Allow"); !strings.Contains(allow, "POST") {
		t.Errorf("Allow is %q", allow)
	}
	v := w.get("calls?status=lost", w.operator).wantProblem(t, 422, "invalid_request")
	field := v["errors"].([]any)[0].(map[string]any)
	if field["location"] != "query.status[0]" || !strings.Contains(field["message"].(string), "parked") {
		t.Errorf("got %v", v)
	}
	for _, path := range []string{"calls?limit=0", "calls?limit=201", "calls?limit=x", "calls?cursor=x", "calls?nonsense=1", "agents?agent=x"} {
		w.get(path, w.operator).wantProblem(t, 422, "invalid_request")
	}
	w.post("agents", w.operator, `{"name":`).wantProblem(t, 400, "invalid_request")
	w.post("agents", w.operator, `[]`).wantProblem(t, 422, "invalid_request")
	w.post("agents", w.operator, ``).wantProblem(t, 400, "invalid_request")
	w.post("agents", w.operator, `{"name":"a","name":"b"}`).wantProblem(t, 400, "invalid_request")
	w.post("agents", w.operator, `{"Name":"a"}`).wantProblem(t, 422, "invalid_request")
	w.post("agents", w.operator, `{"name":"a","instructions":"`+strings.Repeat("x", 1<<20)+`"}`).wantProblem(t, 413, "invalid_request")
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for media, status := range map[string]int{
		"application/json": 201, "application/json; charset=utf-8": 201, "text/plain": 415,
		"application/x-www-form-urlencoded": 415, "multipart/form-data": 415,
	} {
		name := "a" + strings.Map(func(r rune) rune {
			if r < 'a' || r > 'z' {
				return '-'
			}
			return r
		}, media)
		body, err := json.Marshal(map[string]string{"name": name})
		check(t, err)
		if got := w.sendAs(media, "agents", string(body)); got.status != status {
			t.Errorf("%s: status %d: %s", media, got.status, got.body)
		}
	}
}
