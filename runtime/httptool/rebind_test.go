package httptool_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// If a host was public when its skill was registered, neither calls nor its OpenAPI document reach a private address of
// it unless the server is trusted.
func TestHostThatTurnedPrivate(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/x":{"get":{"operationId":"x","responses":{}}}}}`)
	})
	server := skillAt(strings.Replace(a.URL, "127.0.0.1", "LocalHost", 1))
	documented := server
	documented.Transport, documented.API = tool.OpenAPI, &tool.API{Spec: server.URL + "/openapi.json"}
	open := newSource(t, httptool.Config{})
	callTool(t, open, server, getBinding("/x"), `{}`)
	if _, err := open.List(t.Context(), documented); err != nil {
		t.Fatal(err)
	}
	server.PublicHosts, documented.PublicHosts = []string{"localhost"}, []string{"localhost"}
	before := len(a.requests())
	guarded := newSource(t, httptool.Config{})
	if f := failCall(t, guarded, server, newRequest(defineTool(t, getBinding("/x"), nil), `{}`)); f.Effect != tool.EffectNone || !strings.Contains(f.Message, "private") {
		t.Errorf("call: %+v", f)
	}
	if _, err := guarded.List(t.Context(), documented); err == nil || !strings.Contains(err.Error(), "private") {
		t.Errorf("list: %v", err)
	}
	if n := len(a.requests()) - before; n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	trusting := newSource(t, httptool.Config{TrustedHosts: []string{"localhost"}})
	callTool(t, trusting, server, getBinding("/x"), `{}`)
	if _, err := trusting.List(t.Context(), documented); err != nil {
		t.Error(err)
	}
}
