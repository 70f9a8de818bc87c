package httptool_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
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
			document := `{"openapi": "3.1.0", ` + tc.document + `}`
			got, err := httptool.CheckDocument([]byte(document))
			if err != nil || len(got) != tc.count || !slices.Equal(got[:len(tc.want)], tc.want) {
				t.Errorf("%q, %v, want %d, %q", got, err, tc.count, tc.want)
			}
			source, server := given(t, document)
			server.URL, server.API.Origins = "", got
			listing, err := source.List(t.Context(), server)
			if name == "none" {
				return
			}
			// Tools are made of those operations only whose server is known to be the document's.
			if err != nil || name == "many" && (len(listing.Tools) != 99 || !strings.Contains(listing.Skipped[0].Reason, "none of the first 100")) || name != "many" && len(listing.Skipped) > 0 {
				t.Errorf("%d tools, %+v, %v", len(listing.Tools), listing.Skipped, err)
			}
		})
	}
}

// An edit of a document that was given by value leaves its definitions alone; what was accepted of it goes on, while the document that the skill has
// now names the same server. What it does not name gets nothing.
func TestEditedDocument(t *testing.T) {
	t.Parallel()
	api := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	document := func(title, base, operation string) string {
		return fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": %q}, "servers": [{"url": %q}], "paths": {"/a": {"get": {"operationId": "it"%s}}}}`, title, base, operation)
	}
	registered := func(text string) (*httptool.Source, tool.Server) {
		source, server := given(t, text)
		origins, err := httptool.CheckDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		server.URL, server.API.Origins = "", origins
		server.AuthSecret, server.API.Auth = "geheim", &tool.APIAuth{Type: tool.APIBearer}
		return source, server
	}
	listing := func(source *httptool.Source, server tool.Server) tool.Listing { return listed(t, source, server) }
	first := listing(registered(document("Pets", api.URL+"/v1", "")))
	titled := listing(registered(document("All the pets", api.URL+"/v1", "")))
	if first.Tools[0].Pin() != titled.Tools[0].Pin() {
		t.Error("another title, another pin")
	}
	accepted := &first.Tools[0]
	sends := newSource(t, httptool.Config{TrustedHosts: []string{strings.TrimPrefix(api.URL, "http://")}})
	_, edited := registered(document("Pets", api.URL+"/v2", `, "summary": "It"`))
	if _, err := sends.Call(t.Context(), edited, request(accepted, `{}`)); err != nil {
		t.Error(err)
	}
	_, elsewhere := registered(document("Pets", "https://elsewhere.example/v1", ""))
	f := fails(t, sends, elsewhere, request(accepted, `{}`))
	if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "names another server") {
		t.Errorf("%+v", f)
	}
	if sent := api.requests(); len(sent) != 1 || sent[0].uri != "/v1/a" {
		t.Errorf("%+v", sent)
	}
}
