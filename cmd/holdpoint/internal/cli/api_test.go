package cli_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestAPI(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/calls", `{"items":[{"n":1e400,"text":"\u202e"}]}`).setAnswer("POST /api/v1/assignments", `{"agent":"billing"}`).
		setAnswer("PATCH /api/v1/skills/files", `{}`)
	got := f.run("api", "get", "/calls?limit=5&status=parked,failed").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "\n  \"items\": [\n", `"n": 1e400`)
	if got := f.run("api", "GET", "/api/v1/calls", "--json").wantCode(t, 0); got.stdout != `{"items":[{"n":1e400,"text":"\u202e"}]}` {
		t.Errorf("stdout %s", got.stdout)
	}
	if got := strings.Join(f.asked, " "); got != "GET /api/v1/calls?limit=5&status=parked,failed GET /api/v1/calls" {
		t.Errorf("asked %s", got)
	}
	if got := f.header.Get("Authorization"); got != "Bearer t0ken" {
		t.Errorf("authorization %q", got)
	}
	if f.header.Get("Content-Type") != "" {
		t.Errorf("content type %q of no content", f.header.Get("Content-Type"))
	}

	const body = `{"agent": "billing",  "skill":"<b>"}`
	f.run("api", "POST", "/assignments", "--data", body).wantCode(t, 0)
	if f.getLastBody() != body || f.header.Get("Content-Type") != "application/json" {
		t.Errorf("sent %s as %q", f.getLastBody(), f.header.Get("Content-Type"))
	}
	f.run("api", "PATCH", "/skills/files", "--data", "@"+writeFile(t, "patch.json", "{\"team\": 1}\n")).wantCode(t, 0)
	if f.getLastBody() != "{\"team\": 1}\n" {
		t.Errorf("sent %q", f.getLastBody())
	}
	run(t, f.env(), `{"team":2}`, "api", "PATCH", "/skills/files", "--data", "-").wantCode(t, 0)
	if f.getLastBody() != `{"team":2}` {
		t.Errorf("sent %q", f.getLastBody())
	}
	if got := f.run("api", "DELETE", "/agents/billing").wantCode(t, 0); got.stdout != "" || f.asked[len(f.asked)-1] != "DELETE /api/v1/agents/billing" {
		t.Errorf("got %+v, asked %v", got, f.asked)
	}
}

func TestAPIRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t).setProblem("POST /api/v1/agents", http.StatusUnprocessableEntity, `{"status":422,"code":"invalid","detail":"the request is invalid",`+
		`"errors":[{"location":"body.name","message":"must be a name"},{"location":"body.team","message":"must be a team"}]}`)
	got := f.run("api", "POST", "/agents", "--data", "{}").wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, "the request is invalid (invalid)", "body.name: must be a name", "body.team: must be a team")
	if got.stdout != "" {
		t.Errorf("stdout %s", got.stdout)
	}
	wantContains(t, "stderr", f.run("api", "GET", "/nothing").wantCode(t, 1).stderr, "nothing here (not_found)")
	asked := len(f.asked)
	for _, args := range [][]string{{"GET"}, {"GET", "agents"}, {"GET", "/agents", "more"}, {"POST", "/agents", "--data", "@/nowhere/at/all"}} {
		f.run(append([]string{"api"}, args...)...).wantCode(t, 1)
	}
	if len(f.asked) != asked {
		t.Errorf("asked %v", f.asked[asked:])
	}
}

func TestAPIOperations(t *testing.T) {
	t.Parallel()
	got := run(t, nil, "", "api").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "METHOD  PATH", "PATCH   /skills/{name}/tools/{tool}", "GET     /conversations/{id}/events")
	wantContains(t, "stdout", run(t, nil, "", "api", "--json").wantCode(t, 0).stdout, `"method":"PATCH","path":"/api/v1/skills/{name}/tools/{tool}"`)
}
