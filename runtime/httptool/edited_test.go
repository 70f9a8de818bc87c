package httptool_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestEditedDocument: a call uses the accepted definition of an earlier document as long as the current document names
// the same server. Servers that it does not name get nothing.
func TestEditedDocument(t *testing.T) {
	t.Parallel()
	api := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	document := func(title, base, operation string) string {
		return fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": %q}, "servers": [{"url": %q}], "paths": {"/a": {"get": {"operationId": "it"%s}}}}`, title, base, operation)
	}
	registered := func(text string) (*httptool.Source, tool.Server) {
		source, server := openDocument(t, text)
		origins, err := openapi.CheckDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		server.URL, server.API.Origins = "", origins
		server.AuthSecret, server.API.Auth = "geheim", &tool.APIAuth{Type: tool.APIBearer}
		return source, server
	}
	listing := func(source *httptool.Source, server tool.Server) tool.Listing { return mustList(t, source, server) }
	first := listing(registered(document("Pets", api.URL+"/v1", "")))
	titled := listing(registered(document("All the pets", api.URL+"/v1", "")))
	if first.Tools[0].Pin() != titled.Tools[0].Pin() {
		t.Error("another title, another pin")
	}
	accepted := &first.Tools[0]
	sends := newSource(t, httptool.Config{TrustedHosts: []string{strings.TrimPrefix(api.URL, "http://")}})
	_, edited := registered(document("Pets", api.URL+"/v2", `, "summary": "It"`))
	if _, err := sends.Call(t.Context(), edited, newRequest(accepted, `{}`)); err != nil {
		t.Error(err)
	}
	_, elsewhere := registered(document("Pets", "https://elsewhere.example/v1", ""))
	f := failCall(t, sends, elsewhere, newRequest(accepted, `{}`))
	if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "names another server") {
		t.Errorf("%+v", f)
	}
	if sent := api.requests(); len(sent) != 1 || sent[0].uri != "/v1/a" {
		t.Errorf("%+v", sent)
	}
}
