package static_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/static"
)

// A page's assets stay small enough for a phone on a slow connection.
func TestBudget(t *testing.T) {
	t.Parallel()
	assets, err := static.Load()
	if err != nil {
		t.Fatal(err)
	}
	const kilobyte = 1 << 10
	for _, tt := range []struct {
		kind  string
		names []string
		limit int
	}{
		{"scripts", []string{static.HTMX, static.HTMXCSP, static.JS, "clock.js", "complete.js", "copy.js", "notify.js", "outcome.js", "page.js", "palette.js", "read.js", "rows.js", "seek.js", "stream.js", static.Push}, 35 * kilobyte},
		{"styles", []string{static.CSS}, 8 * kilobyte},
	} {
		size := 0
		for _, name := range tt.names {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, assets.URL(name), nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			assets.ServeHTTP(w, r)
			if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" || strings.Contains(w.Header().Get("Content-Type"), "octet") {
				t.Errorf("%s: %d %v", name, w.Code, w.Header())
			}
			size += w.Body.Len()
		}
		if size > tt.limit {
			t.Errorf("%s are %d bytes compressed, at most %d", tt.kind, size, tt.limit)
		}
	}
}

// The number of styles stays small.
func TestStylesStayFew(t *testing.T) {
	t.Parallel()
	assets, err := static.Load()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	assets.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, assets.URL(static.CSS), nil))
	if size := w.Body.Len(); size > 25<<10 || size < 1<<10 {
		t.Errorf("styles are %d bytes, at most %d", size, 25<<10)
	}
}
