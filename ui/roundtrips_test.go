package ui_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// recordRoundTrips gets an address of the dashboard and returns its round trips to the database, without that for the session. It tries
// again if there are more than most, because a cache may expire right before.
func (v *visitor) recordRoundTrips(path string, most int) (status int, trips []string) {
	v.w.t.Helper()
	for range 5 {
		r := v.request(http.MethodGet, path, "", "HX-Request", "true")
		for _, c := range v.client.Jar.Cookies(r.URL) {
			r.AddCookie(c)
		}
		ctx, recorded := postgrestest.RecordRoundTrips(r.Context())
		recorder := httptest.NewRecorder()
		v.w.mux.ServeHTTP(recorder, r.WithContext(ctx))
		if status, trips = recorder.Code, recorded.List(); len(trips) <= most {
			break
		}
	}
	return status, trips
}

// A reviewer opens call after call with one key each, so each round trip counts.
func TestCallTakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, ben := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	w.signedIn("cleo", identity.Reviewer)
	principal := w.personCalled("ben")
	var paths []string
	for range 2 {
		path := callPath(w.submit(principal, "files__save_csv", `{"filename":"x","password":"hidden"}`))
		v.post(path+"/comments", map[string][]string{"comment": {"Who is ben?"}})
		ben.post(path+"/seen", nil)
		paths = append(paths, path)
	}
	if page := v.get(paths[0]); !strings.Contains(page.text(), "Who is ben?") { // it also warms the caches
		t.Fatalf("the comment is missing: %s", page.text())
	}
	for _, step := range []struct {
		path string
		most int // the state of the call, what belongs to it, and one write
	}{
		{paths[1] + "?look=1", 3},
		{paths[1], 2},
	} {
		status, trips := v.recordRoundTrips(step.path, step.most)
		if status != http.StatusOK || len(trips) == 0 || len(trips) > step.most {
			t.Errorf("%s: status %d, %d round trips, want at most %d:\n%s", step.path, status, len(trips), step.most, strings.Join(trips, "\n---\n"))
		}
		for _, sql := range trips {
			if strings.Contains(sql, "count(*), coalesce(max(created_at)") {
				t.Error("the page reads all pending approvals")
			}
		}
	}
	form := v.get(paths[0]).form("decide")
	v.post(paths[0]+"/reject", form)
	if status, trips := v.recordRoundTrips(paths[0], 2); status != http.StatusOK || len(trips) == 0 || len(trips) > 2 {
		t.Errorf("the decided call: status %d, %d round trips:\n%s", status, len(trips), strings.Join(trips, "\n---\n"))
	}
}
