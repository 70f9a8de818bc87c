package openapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
)

func TestOrigins(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, `,"/%d": {"get": {"servers": [{"url": "https://h%d.example"}]}}`, i, i)
	}
	for name, tc := range map[string]struct {
		document string
		count    int
		want     []string
	}{
		"its own": {`"servers": [{"url": "https://Pets.example/v1"}, {"url": "https://other.example"}], "paths": {"/a": {"get": {}}}`, 1, []string{"https://pets.example:443"}},
		"of operations": {
			`"servers": [{"url": "http://pets.example"}], "paths": {"/a": {"get": {"servers": [{"url": "http://pets.example:80/up"}]}, "put": {"servers": [{"url": "http://up.example:81"}]}}}`,
			2,
			[]string{"http://pets.example:80", "http://up.example:81"},
		},
		"none": {`"servers": [{"url": "/v1"}], "paths": {"/a": {"get": {}}}`, 0, nil},
		"many": {`"servers": [{"url": "https://pets.example"}], "paths": {"/a": {}` + many.String() + `}`, 100, []string{"https://pets.example:443", "https://h0.example:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{"openapi": "3.1.0", ` + tc.document + `}`
			got, err := openapi.CheckDocument([]byte(text))
			if err != nil || len(got) != tc.count || !slices.Equal(got[:len(tc.want)], tc.want) {
				t.Errorf("%q, %v, want %d, %q", got, err, tc.count, tc.want)
			}
			source, server := openDocument(t, text)
			server.URL, server.API.Origins = "", got
			listing, err := source.List(t.Context(), server)
			if name == "none" {
				return
			}
			// Only operations with a server from the document become tools.
			if err != nil || name == "many" && (len(listing.Tools) != 99 || !strings.Contains(listing.Skipped[0].Reason, "none of the first 100")) || name != "many" && len(listing.Skipped) > 0 {
				t.Errorf("%d tools, %+v, %v", len(listing.Tools), listing.Skipped, err)
			}
		})
	}
}
