package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestApprovalsTakeFewRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, step := range []struct {
		action string
		most   int
	}{
		{"", 2},        // the approval, and what belongs to it
		{"reject", 5},  // two of the decision, two of the ended call, and what belongs to it
		{"approve", 3}, // two of the decision, and what belongs to it; others are of the dispatch
	} {
		var trips []string
		for try := 0; try < 5 && (try == 0 || len(trips) > step.most); try++ { // a cache may expire right before
			path := "approvals/" + w.submitCall("files__write", fmt.Sprintf(`{"n":%d}`, 10*i+try), w.personID(w.operator)).String()
			digest, _ := w.get(path, w.reviewer).wantStatus(t, http.StatusOK)["digest"].(string) // warms the caches
			method, body := http.MethodGet, ""
			if step.action != "" {
				method, body = http.MethodPost, `{"digest":"`+digest+`","`+map[string]string{"approve": "note", "reject": "reason"}[step.action]+`":"text"}`
				path += "/" + step.action
			}
			trips = w.recordRoundTrips(method, "/api/v1/"+path, w.reviewer, body)
		}
		if len(trips) == 0 || len(trips) > step.most {
			t.Errorf("%q: %d round trips, want at most %d:\n%s", step.action, len(trips), step.most, strings.Join(trips, "\n---\n"))
		}
	}
}

// recordRoundTrips sends a request and returns its round trips to the database.
func (w *world) recordRoundTrips(method, path, token, body string) []string {
	w.t.Helper()
	r := w.newRequest(method, path, token, body)
	ctx, trips := postgrestest.RecordRoundTrips(r.Context())
	recorder := w.serve(r.WithContext(ctx))
	if recorder.status != http.StatusOK {
		w.t.Fatalf("%s %s: status %d: %s", method, path, recorder.status, recorder.body)
	}
	return trips.List()
}
