package httptool_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Small arguments cannot expand to an unbounded request.
func TestArgumentsThatMultiply(t *testing.T) {
	t.Parallel()
	key, ones := strings.Repeat("k", 10_000), strings.TrimSuffix(strings.Repeat("1,", 10_000), ",")
	deep := newParam("filter", openapi.InQuery)
	deep.Style = openapi.StyleDeepObject
	list := newParam(key, openapi.InQuery)
	list.Arg, list.Style, list.Explode = "list", openapi.StyleForm, true
	for name, tc := range map[string]struct {
		binding   openapi.Binding
		arguments string
	}{
		"deep object":      {getBinding("/x", deep), `{"filter":{"` + key + `":[` + ones + `]}}`},
		"list":             {getBinding("/x", list), `{"list":[` + ones + `]}`},
		"repeated in path": {getBinding("/"+strings.Repeat("{a}", 600), newParam("a", openapi.InPath)), `{"a":"` + key + `"}`},
		"multipart": {
			postBinding("/x", openapi.Body{Kind: openapi.BodyMultipart, Media: "multipart/form-data", Fields: []openapi.Field{{Arg: "f", Name: key}}}),
			`{"f":[` + ones + `]}`,
		},
	} {
		if told := refuseArguments(t, tc.binding, tc.arguments); !strings.Contains(told, "makes") {
			t.Errorf("%s: %.300s", name, told)
		}
	}
}

// A server that switches protocols does not block the call.
func TestSwitchedProtocols(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		_, _ = conn.Read(make([]byte, 1)) // waits until the client closes
	})
	r := newRequest(defineTool(t, getBinding("/x"), nil), `{}`)
	r.Timeout = time.Minute
	f := failCall(t, newSource(t, httptool.Config{}), skillAt(a.URL), r)
	if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "101") {
		t.Errorf("%+v", f)
	}
}

// Many servers redirect after a POST succeeded.
func TestRedirectAfterPost(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/7", http.StatusSeeOther) })
	for method, effect := range map[string]tool.Effect{"POST": tool.EffectPossible, "DELETE": tool.EffectPossible} {
		b := getBinding("/orders")
		b.Method = method
		result, err := newSource(t, httptool.Config{}).Call(t.Context(), skillAt(a.URL), newRequest(defineTool(t, b, nil), `{}`))
		if err != nil || !result.IsError || result.Effect != effect || !strings.Contains(string(result.Raw), "may have been executed") {
			t.Errorf("%s: %+v, %v", method, result, err)
		}
	}
}

// Header values that are not credentials, such as a version, are not masked in answers.
func TestAnswersAreNotFalsified(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"released":"2022-11-28","customers":[{"kind":"customer"}]}`)
	})
	server := skillAt(a.URL)
	server.Headers = map[string]string{"X-Github-Api-Version": "2022-11-28", "X-Tenant": "customer", "X-Forwarded-Proto": "https"}
	if got := callTool(t, newSource(t, httptool.Config{}), server, getBinding("/x"), `{}`); !strings.Contains(got.text(), `{"released":"2022-11-28","customers":[{"kind":"customer"}]}`) {
		t.Errorf("%s", got.text())
	}
	if got := a.requests()[0].header.Get("X-Forwarded-Proto"); got != "https" {
		t.Errorf("the operator's header is %q", got)
	}
}
