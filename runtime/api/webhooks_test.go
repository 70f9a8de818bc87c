package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var broken atomic.Bool
	var said atomic.Value
	chat := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said.Store(string(body))
		if broken.Load() {
			rw.WriteHeader(http.StatusNotFound)
			io.WriteString(rw, "no_service")
		}
	}))
	defer chat.Close()
	made := w.post("webhooks", w.operator, fmt.Sprintf(`{"name":"on-call","url":"%s/hushhush","team":"blue"}`, chat.URL))
	v := made.wantStatus(t, 201)
	if v["host"] != strings.TrimPrefix(chat.URL, "http://") || v["state"] != "new" || v["team"] != "blue" || v["created_by"] != "olga" || v["sent_at"] != nil {
		t.Errorf("%s", made.body)
	}
	if v := w.post("webhooks/on-call/test", w.operator, "").wantStatus(t, 200); v["state"] != "working" || v["error"] != nil || v["sent_at"] == nil {
		t.Errorf("%v", v)
	}
	if text, _ := said.Load().(string); !strings.Contains(text, "This is a test") {
		t.Errorf("sent %q", text)
	}
	broken.Store(true)
	if v := w.post("webhooks/on-call/test", w.operator, "").wantStatus(t, 200); v["state"] != "failing" || v["error"] != "answered HTTP 404: no_service" {
		t.Errorf("%v", v)
	}
	list := w.get("webhooks", w.operator)
	if found := listItems(t, list.wantStatus(t, 200)); len(found) != 1 || strings.Contains(list.body+made.body, "hushhush") {
		t.Errorf("%s", list.body)
	}
	for body, location := range map[string]string{
		`{"name":"on-call","url":"https://chat.example/hushhush"}`:                "body.name",
		`{"name":"b","url":"chat.example/hushhush"}`:                              "body.url",
		`{"name":"b","url":"http://chat.example/` + nul + `hushhush"}`:            "body.url",
		`{"name":"b","url":"https://chat.example/hushhush","team":"` + nul + `"}`: "body.team",
	} {
		got := w.post("webhooks", w.operator, body)
		if problem := got.wantProblem(t, 422, "invalid_request"); strings.Contains(got.body, "hushhush") || !strings.Contains(fmt.Sprint(problem["errors"]), location) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	w.send("DELETE", "/api/v1/webhooks/on-call", w.operator, "").wantStatus(t, 204)
	w.send("DELETE", "/api/v1/webhooks/on-call", w.operator, "").wantProblem(t, 404, "not_found")
	w.post("webhooks/on-call/test", w.operator, "").wantProblem(t, 404, "not_found")
	w.post("webhooks/%00/test", w.operator, "").wantProblem(t, 404, "not_found")
}
