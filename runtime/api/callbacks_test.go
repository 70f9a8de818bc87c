package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestCallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var broken atomic.Bool
	type request struct {
		header http.Header
		body   []byte
	}
	requests := make(chan request, 10)
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Header, body}
		if broken.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer other.Close()
	const one = "agents/billing/callbacks/ops"
	made := w.post("agents/billing/callbacks", w.operator, fmt.Sprintf(`{"name":"ops","url":"%s/hushhush"}`, other.URL))
	v := made.wantStatus(t, 201)
	first, _ := v["secret"].(string)
	if v["agent"] != "billing" || v["host"] != strings.TrimPrefix(other.URL, "http://") || v["state"] != "new" || v["created_by"] != "olga" ||
		!strings.HasPrefix(first, "whsec_") {
		t.Errorf("%s", made.body)
	}
	rotated := w.post(one+"/rotate-secret", w.operator, `{"grace_seconds":60}`).wantStatus(t, 200)
	second, _ := rotated["secret"].(string)
	if second == first || rotated["earlier_secret_until"] == nil {
		t.Errorf("%v", rotated)
	}

	tested := w.post(one+"/test", w.operator, "").wantStatus(t, 200)
	got := <-requests
	for _, secret := range []string{first, second} {
		hook, err := standardwebhooks.NewWebhook(secret)
		check(t, err)
		check(t, hook.Verify(got.body, got.header))
	}
	if tested["state"] != "delivered" || tested["type"] != "callback.test" || tested["id"] != got.header.Get("webhook-id") {
		t.Errorf("%v", tested)
	}
	broken.Store(true)
	tested = w.post(one+"/test", w.operator, "").wantStatus(t, 200)
	if tested["state"] != "failed" || tested["error"] != "answered HTTP 500" {
		t.Errorf("%v", tested)
	}
	page := w.get(one+"/deliveries?limit=1", w.operator).wantStatus(t, 200)
	cursor, _ := page["next_cursor"].(string)
	rest := w.get(one+"/deliveries?limit=1&cursor="+cursor, w.operator).wantStatus(t, 200)
	if found := append(listItems(t, page), listItems(t, rest)...); len(found) != 2 || cursor == "" || rest["next_cursor"] != nil {
		t.Errorf("%v, %v", page, rest)
	}
	resent := w.post(fmt.Sprintf("%s/deliveries/%s/resend", one, tested["id"]), w.operator, "").wantStatus(t, 200)
	if resent["state"] != "waiting" {
		t.Errorf("%v", resent)
	}
	if v := w.post(one+"/disable", w.operator, "").wantStatus(t, 200); v["state"] != "disabled" || v["disabled_reason"] != "operator" {
		t.Errorf("%v", v)
	}
	w.post(fmt.Sprintf("%s/deliveries/%s/resend", one, tested["id"]), w.operator, "").wantProblem(t, 409, "state_conflict")
	if v := w.post(one+"/enable", w.operator, "").wantStatus(t, 200); v["state"] != "working" || v["disabled_reason"] != nil {
		t.Errorf("%v", v)
	}
	list := w.get("agents/billing/callbacks", w.operator)
	if found := listItems(t, list.wantStatus(t, 200)); len(found) != 1 || strings.Contains(list.body, "hushhush") || strings.Contains(list.body, "whsec_") {
		t.Errorf("%s", list.body)
	}
	w.wrongCallbacks(t)
	w.send("DELETE", "/api/v1/"+one, w.operator, "").wantStatus(t, 204)
	w.send("DELETE", "/api/v1/"+one, w.operator, "").wantProblem(t, 404, "not_found")
}

// wrongCallbacks sends requests that are refused.
func (w *world) wrongCallbacks(t *testing.T) {
	t.Helper()
	for body, location := range map[string]string{
		`{"name":"ops","url":"https://ops.example/hushhush"}`: "body.name",
		`{"name":"b","url":"ops.example/hushhush"}`:           "body.url",
		`{"name":"b","url":"http://ops.example/hushhush"}`:    "body.url",
	} {
		got := w.post("agents/billing/callbacks", w.operator, body)
		if problem := got.wantProblem(t, 422, "invalid_request"); strings.Contains(got.body, "hushhush") || !strings.Contains(fmt.Sprint(problem["errors"]), location) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	const one = "agents/billing/callbacks/ops"
	for _, grace := range []json.Number{"-1", "604801", "9223372036854775807"} {
		w.post(one+"/rotate-secret", w.operator, fmt.Sprintf(`{"grace_seconds":%s}`, grace)).wantProblem(t, 422, "invalid_request")
	}
	w.get(one+"/deliveries?cursor=x", w.operator).wantProblem(t, 422, "invalid_request")
	for _, path := range []string{
		"agents/other/callbacks/ops/test", "agents/nobody/callbacks/ops/test", "agents/billing/callbacks/none/test", "agents/billing/callbacks/%00/test",
		one + "/deliveries/01890000-0000-7000-8000-000000000000/resend", one + "/deliveries/x/resend",
	} {
		w.post(path, w.operator, "").wantProblem(t, 404, "not_found")
	}
}
