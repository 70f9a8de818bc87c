package httptool_test

import (
	"context"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Attacks on requests through arguments, documents and servers, one test each.

func TestInjectionPathTraversal(t *testing.T) {
	t.Parallel()
	b := getBinding("/files/{name}", newParam("name", openapi.InPath))
	for _, value := range []string{
		"..", ".", "../admin", "a/../../admin", "a/..", "./a", `..\admin`, "%2e%2e", "%2E%2e/admin", "..%2fadmin", "%252e%252e%252fadmin",
		"..;/admin", "..;x=1", "%" + strings.Repeat("25", 20) + "2e", "a/%2e./b",
	} {
		if why := refuseArguments(t, b, encodeJSON(t, map[string]string{"name": value})); !strings.Contains(why, `argument "name"`) {
			t.Errorf("%q: %s", value, why)
		}
	}
	for value, want := range map[string]string{
		"...": "...", "a..b": "a..b", ".hidden": ".hidden", "v1.2": "v1.2", "100%": "100%25", "..a": "..a",
	} {
		if got := sendCall(t, b, encodeJSON(t, map[string]string{"name": value})).uri; got != "/v1/files/"+want {
			t.Errorf("%q: %s", value, got)
		}
	}
}

// TestInjectionTraversalOfParts: values that are harmless alone do not combine to "..".
func TestInjectionTraversalOfParts(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	label := openapi.Param{Arg: "b", Name: "b", In: openapi.InPath, Style: openapi.StyleLabel}
	for _, b := range []openapi.Binding{getBinding("/x/.{b}", label), getBinding("/x/{b}/..", newParam("b", openapi.InPath)), getBinding("/x/%2e%2e/{b}", newParam("b", openapi.InPath))} {
		r, err := newSource(t, httptool.Config{}).Call(t.Context(), skillAt(a.URL), newRequest(defineTool(t, b, nil), `{"b":"/"}`))
		if err == nil && !r.IsError && !strings.HasPrefix(a.requests()[0].uri, "/x/..%2F") {
			t.Errorf("%s: sent %+v", b.Path, a.requests())
		}
	}
}

func TestInjectionEncodedSlashes(t *testing.T) {
	t.Parallel()
	b := getBinding("/repos/{name}/readme", newParam("name", openapi.InPath))
	for value, want := range map[string]string{
		"group/project": "group%2Fproject", "a%2Fb": "a%252Fb", `a\b`: "a%5Cb", "/etc/passwd": "%2Fetc%2Fpasswd", "//evil.example": "%2F%2Fevil.example",
		"a?b=c": "a%3Fb%3Dc", "a#b": "a%23b", "a;b": "a%3Bb", "@evil.example": "%40evil.example", "a:80": "a%3A80",
	} {
		if got := sendCall(t, b, encodeJSON(t, map[string]string{"name": value})).uri; got != "/v1/repos/"+want+"/readme" {
			t.Errorf("%q: %s", value, got)
		}
	}
}

func TestInjectionCRLFInHeader(t *testing.T) {
	t.Parallel()
	b := getBinding("/x", newParam("X-Note", openapi.InHeader))
	for _, value := range []string{"a\r\nX-Admin: 1", "a\nb", "a\rb", "a\x00b", "a\x7fb", "a\tb", "\u00fc", "a\u2028b", " a", "a "} {
		if why := refuseArguments(t, b, encodeJSON(t, map[string]string{"X-Note": value})); !strings.Contains(why, `argument "X-Note"`) {
			t.Errorf("%q: %s", value, why)
		}
	}
	if why := refuseArguments(t, b, `{"X-Note":["a","b\r\nc"]}`); !strings.Contains(why, `argument "X-Note"`) {
		t.Error(why)
	}
}

func TestInjectionCRLFInPathAndQuery(t *testing.T) {
	t.Parallel()
	b := getBinding("/x/{id}", newParam("id", openapi.InPath), newParam("q", openapi.InQuery))
	if got := sendCall(t, b, `{"id":"a\r\nX-Admin: 1","q":"b HTTP/1.1\r\nHost: evil\r\n\r\n"}`); got.uri != "/v1/x/a%0D%0AX-Admin%3A%201?q=b%20HTTP%2F1.1%0D%0AHost%3A%20evil%0D%0A%0D%0A" || got.header.Get("X-Admin") != "" {
		t.Errorf("%+v", got)
	}
}

func TestInjectionArraysAndObjectsInQuery(t *testing.T) {
	t.Parallel()
	b := getBinding("/x", newParam("filter", openapi.InQuery), newParam("limit", openapi.InQuery))
	if got := sendCall(t, b, `{"filter":["a&limit=1","b=c"]}`).uri; got != "/v1/x?filter=a%26limit%3D1&filter=b%3Dc" {
		t.Error(got)
	}
	if got := sendCall(t, b, `{"filter":{"a&b":"c=d","e":1}}`).uri; got != "/v1/x?a%26b=c%3Dd&e=1" {
		t.Error(got)
	}
	if why := refuseArguments(t, b, `{"filter":{"limit":"1000"}}`); !strings.Contains(why, `argument "filter"`) || !strings.Contains(why, `"limit"`) {
		t.Error(why)
	}
	refuseArguments(t, b, `{"filter":{"a":{"b":"c"}}}`)
}

func TestInjectionQueryValueAddsNoPair(t *testing.T) {
	t.Parallel()
	plain := newParam("q", openapi.InQuery)
	free := plain
	free.AllowReserved = true
	for _, p := range []openapi.Param{plain, free} {
		a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
			if q := r.URL.Query(); len(q) != 1 || len(q["q"]) != 1 || q.Get("q") != "1&admin=true#x+y%26z=1" {
				t.Errorf("read as %v", q)
			}
			w.WriteHeader(http.StatusNoContent)
		})
		callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL), getBinding("/x", p), `{"q":"1&admin=true#x+y%26z=1"}`)
	}
}

// TestInjectionDuplicateKeys: an object argument cannot set the parameter of the skill's credentials, and a form has no
// duplicate fields.
func TestInjectionDuplicateKeys(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	server := skillAt(a.URL)
	server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIKey, In: "query", Name: "api key"}, "the-secret-key"
	s := newSource(t, httptool.Config{})
	for _, b := range []openapi.Binding{getBinding("/x", newParam("filter", openapi.InQuery)), getBinding("/x", openapi.Param{Arg: "filter", Name: "api key", In: "query", Style: "form"})} {
		r := callTool(t, s, server, b, `{"filter":{"api key":"mine"}}`)
		if !r.IsError || !strings.Contains(r.text(), `argument "filter"`) || len(a.requests()) > 0 {
			t.Errorf("%s, %d sent", r.text(), len(a.requests()))
		}
	}
	form := postBinding("/x", openapi.Body{Kind: openapi.BodyForm, Fields: []openapi.Field{
		{Arg: "amount", Name: "amount"}, {Arg: "meta", Name: "meta", Style: openapi.StyleForm, Explode: true},
	}})
	if why := refuseArguments(t, form, `{"amount":1,"meta":{"amount":1000}}`); !strings.Contains(why, `argument "meta"`) {
		t.Error(why)
	}
}

// TestInjectionHeaderOfOurs: a parameter cannot set a header of Holdpoint or the skill, in any spelling.
func TestInjectionHeaderOfOurs(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	server := skillAt(a.URL)
	server.Headers = map[string]string{"X-Org": "acme"}
	server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIBearer}, "bearer-secret"
	s := newSource(t, httptool.Config{})
	for _, name := range []string{
		"Host", "content-length", "Transfer-Encoding", "Connection", "cookie", "X-Forwarded-For", "Proxy-Authorization", "Sec-Fetch-Site",
		"authorization", "AUTHORIZATION", "x-org", "X-Agent", "Traceparent", "Content-Type", "X Org", "X-Org\r\nX-Admin", "",
	} {
		b := postBinding("/x", openapi.Body{Kind: openapi.BodyJSON, Arg: "body"}, openapi.Param{Arg: "h", Name: name, In: openapi.InHeader})
		r := newRequest(defineTool(t, b, nil), `{"h":"mine","body":1}`)
		r.Caller.Headers = map[string]string{"X-Agent": "sales"}
		got, err := s.Call(t.Context(), server, r)
		if err != nil || !got.IsError || !strings.Contains(readResult(t, got).text(), `argument "h"`) {
			t.Errorf("%q: %s, %v", name, got.Raw, err)
		}
	}
	if all := a.requests(); len(all) > 0 {
		t.Errorf("sent %+v", all)
	}
}

// TestInjectionFixedHeader: headers of a definition do not replace the skill's credentials.
func TestInjectionFixedHeader(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	server := skillAt(a.URL)
	server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIBearer}, "bearer-secret"
	b := getBinding("/x")
	b.Fixed = []openapi.FixedHeader{{Name: "authorization", Value: "Bearer other"}, {Name: "X-Api-Version", Value: "2"}}
	callTool(t, newSource(t, httptool.Config{}), server, b, `{}`)
	got := a.onlyRequest(t)
	if got.header.Get("Authorization") != "Bearer bearer-secret" || "http://"+got.host != a.URL || got.header.Get("X-Api-Version") != "2" {
		t.Errorf("%+v", got)
	}
	for _, bad := range []openapi.FixedHeader{{Name: "Host", Value: "evil.example"}, {Name: "X-Bad", Value: "a\r\nb"}, {Name: "X-A: b\r\nX-B", Value: "c"}} {
		b.Fixed = []openapi.FixedHeader{bad}
		f := failCall(t, newSource(t, httptool.Config{}), server, newRequest(defineTool(t, b, nil), `{}`))
		if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "nothing was sent: the ") || len(a.requests()) != 1 {
			t.Errorf("%+v: %+v", bad, f)
		}
	}
}

func TestInjectionCookie(t *testing.T) {
	t.Parallel()
	b := getBinding("/x", newParam("track", openapi.InCookie), newParam("bag", openapi.InCookie))
	if got := sendCall(t, b, `{"track":"a; admin=1, \"x\"\\\r\n\u00fc%41"}`).header.Get("Cookie"); got != "track=a%3B%20admin=1%2C%20%22x%22%5C%0D%0A%C3%BC%2541" {
		t.Error(got)
	}
	for _, arguments := range []string{`{"bag":{"track":"x"},"track":"y"}`, `{"bag":{"a; admin":"1"}}`, `{"bag":{"":"1"}}`} {
		if why := refuseArguments(t, b, arguments); !strings.Contains(why, `argument "bag"`) {
			t.Error(why)
		}
	}
	a := newAPI(t, nil)
	server := skillAt(a.URL)
	server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIKey, In: "cookie", Name: "sid"}, "session; secret"
	r := callTool(t, newSource(t, httptool.Config{}), server, b, `{"bag":{"sid":"mine"}}`)
	if !r.IsError || len(a.requests()) != 0 {
		t.Errorf("%s", r.Raw)
	}
	callTool(t, newSource(t, httptool.Config{}), server, b, `{"track":"t"}`)
	if got := a.onlyRequest(t).header["Cookie"]; len(got) != 1 || got[0] != "track=t; sid=session%3B%20secret" {
		t.Errorf("%q", got)
	}
}

func TestInjectionMultipartName(t *testing.T) {
	t.Parallel()
	b := postBinding("/x", openapi.Body{Kind: openapi.BodyMultipart, Arg: "form"})
	got := sendCall(t, b, `{"form":{"a\"; filename=\"x.sh\r\nContent-Type: text/html\r\n\r\nx":"1","b":"--holdpoint-x\r\nContent-Disposition: form-data; name=\"c\"\r\n\r\n2"}}`)
	_, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(strings.NewReader(got.body), parameters["boundary"]).ReadForm(1 << 20)
	if err != nil || len(form.File) != 0 || len(form.Value) != 2 || len(form.Value["b"]) != 1 || len(form.Value["c"]) != 0 {
		t.Errorf("%v: %+v of %q", err, form, got.body)
	}
}

// TestInjectionTemplateInValue: braces in a value are literal text.
func TestInjectionTemplateInValue(t *testing.T) {
	t.Parallel()
	b := postBinding("/x/{a}/{b}", openapi.Body{Kind: openapi.BodyJSON, Fields: []openapi.Field{{Arg: "c", Name: "c"}}},
		newParam("a", openapi.InPath), newParam("b", openapi.InPath), newParam("q", openapi.InQuery), newParam("X-H", openapi.InHeader))
	got := sendCall(t, b, `{"a":"{b}","b":"{{a}}","q":"${b}","X-H":"{a} %s %7Bb%7D","c":"{b}{{.Secret}}${HOME}"}`)
	if got.uri != "/v1/x/%7Bb%7D/%7B%7Ba%7D%7D?q=%24%7Bb%7D" || got.header.Get("X-H") != "{a} %s %7Bb%7D" || got.body != `{"c":"{b}{{.Secret}}${HOME}"}` {
		t.Errorf("%+v", got)
	}
}

// TestInjectionHost: neither names in other scripts nor an @ in a path change the request's host.
func TestInjectionHost(t *testing.T) {
	t.Parallel()
	s := newSource(t, httptool.Config{})
	for base, want := range map[string]string{
		"http://bücher.example/v1":        "http://xn--bcher-kva.example/v1/x/%40evil.example",
		"http://BÜCHER.example:8080":      "http://xn--bcher-kva.example:8080/x/%40evil.example",
		"http://\u0430pple.example":       "http://xn--pple-43d.example/x/%40evil.example", // a Cyrillic a
		"http://user:pass@api.example/v1": "http://api.example/v1/x/%40evil.example",
		"http://[::1]:99/v1/":             "http://[::1]:99/v1/x/%40evil.example",
	} {
		told, err := s.Outgoing(skillAt(base), newRequest(defineTool(t, getBinding("/x/{id}", newParam("id", openapi.InPath)), nil), `{"id":"@evil.example"}`))
		if err != nil || told.URL != want {
			t.Errorf("%s: %+v, %v", base, told, err)
		}
	}
	for _, base := range []string{"", "ftp://a.example", "http://", "//a.example", "http://a.example/?x=1", "http://a.example/#x", "http://a.example/v1/../admin", "http://a.example/%2e%2e/", "http://a b.example", "mailto:a@b"} {
		if told, err := s.Outgoing(skillAt(base), newRequest(defineTool(t, getBinding("/x"), nil), `{}`)); err == nil {
			t.Errorf("%s: %+v", base, told)
		}
	}
}

// TestPrivateBase: the operator's base URL may be on a private network. A document's may be only if the operator trusts
// its host.
func TestPrivateBase(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	host := strings.TrimPrefix(a.URL, "http://")
	b := getBinding("/x")
	b.Base = a.URL
	document := skillAt("")
	document.Transport = tool.OpenAPI
	document.API = &tool.API{Document: "digest", Origins: []string{a.URL}}
	f := failCall(t, newSource(t, httptool.Config{}), document, newRequest(defineTool(t, b, nil), `{}`))
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone || !strings.Contains(f.Message, "private addresses are not allowed") || len(a.requests()) != 0 {
		t.Errorf("%+v", f)
	}
	fromElsewhere := document
	fromElsewhere.API = &tool.API{Spec: "http://docs.example/openapi.json"}
	failCall(t, newSource(t, httptool.Config{}), fromElsewhere, newRequest(defineTool(t, b, nil), `{}`))
	sameOrigin := document
	sameOrigin.API = &tool.API{Spec: a.URL + "/openapi.json"}
	callTool(t, newSource(t, httptool.Config{}), sameOrigin, b, `{}`)
	// A definition from a document that the skill no longer has must not send secrets anywhere.
	other := document
	other.API, other.AuthSecret = &tool.API{Document: "another", Origins: []string{"http://another.example:80"}, Auth: &tool.APIAuth{Type: tool.APIBearer}}, "for another document"
	server := skillAt("")
	server.API, server.AuthSecret = other.API, other.AuthSecret // transport http-api
	for _, s := range []tool.Server{other, server} {
		if f := failCall(t, newSource(t, httptool.Config{TrustedHosts: []string{host}}), s, newRequest(defineTool(t, b, nil), `{}`)); f.Effect != tool.EffectNone || f.Kind == tool.ToolError {
			t.Errorf("%+v", f)
		}
	}
	callTool(t, newSource(t, httptool.Config{TrustedHosts: []string{host}}), document, b, `{}`)
	callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL), getBinding("/x"), `{}`)
	if n := len(a.requests()); n != 3 {
		t.Errorf("sent %d times, want 3", n)
	}
}

// TestMetadataBase: no base URL may lead to cloud metadata, not even the operator's.
func TestMetadataBase(t *testing.T) {
	t.Parallel()
	s := newSource(t, httptool.Config{TrustedHosts: []string{"169.254.169.254"}})
	for _, base := range []string{"http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://[::ffff:169.254.169.254]/", "http://100.100.100.200", "http://168.63.129.16"} {
		f := failCall(t, s, skillAt(base), newRequest(defineTool(t, getBinding("/x"), nil), `{}`))
		if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "never dialled") {
			t.Errorf("%s: %+v", base, f)
		}
	}
}

// newRedirecting returns a skill with all kinds of credentials whose API redirects to an address, and the two servers.
func newRedirecting(t *testing.T, to func(other string) string) (server tool.Server, first, other *api) {
	t.Helper()
	other = newAPI(t, nil)
	first = newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("here"))
			return
		}
		w.Header().Set("Location", to(other.URL))
		w.WriteHeader(http.StatusFound)
	})
	server = newSecretive(first.URL)
	server.Headers["Authorization"] = "Bearer top-secret"
	return server, first, other
}

func followRedirect(t *testing.T, s *httptool.Source, server tool.Server, b openapi.Binding, arguments string) result {
	t.Helper()
	r := newRequest(defineTool(t, b, nil), arguments)
	r.Caller.Headers = map[string]string{"X-Agent": "sales"}
	got, err := s.Call(t.Context(), server, r)
	if err != nil {
		t.Fatal(err)
	}
	return readResult(t, got)
}

// TestRedirectToAnotherOrigin: the redirected request has no data of the skill, the caller or the arguments.
func TestRedirectToAnotherOrigin(t *testing.T) {
	t.Parallel()
	server, first, other := newRedirecting(t, func(other string) string { return other + "/there?a=1" })
	s := newSource(t, httptool.Config{TrustedHosts: []string{strings.TrimPrefix(other.URL, "http://")}})
	r := followRedirect(t, s, server, getBinding("/x", newParam("X-Note", openapi.InHeader), newParam("track", openapi.InCookie)), `{"X-Note":"note","track":"t"}`)
	if r.IsError || r.text() != `{"ok":true}` {
		t.Fatalf("%s", r.Raw)
	}
	if got := first.onlyRequest(t); got.header.Get("Authorization") == "" || got.header.Get("X-Note") == "" || got.header.Get("X-Agent") == "" || got.header.Get("Cookie") == "" {
		t.Errorf("the API itself got %+v", got)
	}
	got := other.onlyRequest(t)
	if len(got.header) != 2 || got.header.Get("Accept") != "*/*" || !strings.HasPrefix(got.header.Get("User-Agent"), "holdpoint/") || got.uri != "/there?a=1" {
		t.Errorf("the other got %+v", got)
	}
}

// TestRedirectBack: a redirect back to the origin has no headers of the skill.
func TestRedirectBack(t *testing.T) {
	t.Parallel()
	var first *api
	other := newAPI(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, first.URL+"/here", http.StatusFound) })
	first = newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/here" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	})
	s := newSource(t, httptool.Config{TrustedHosts: []string{"127.0.0.1"}})
	followRedirect(t, s, newSecretive(first.URL), getBinding("/x"), `{}`)
	got := first.requests()
	if len(got) != 2 || got[0].header.Get("X-Org") == "" || got[1].header.Get("X-Org") != "" || got[1].header.Get("Cookie") != "" {
		t.Errorf("%+v", got)
	}
}

func TestRedirectWithinTheOrigin(t *testing.T) {
	t.Parallel()
	server, first, _ := newRedirecting(t, func(string) string { return "/here" })
	if r := followRedirect(t, newSource(t, httptool.Config{}), server, getBinding("/x"), `{}`); r.text() != "here" {
		t.Errorf("%s", r.Raw)
	}
	got := first.requests()
	if len(got) != 2 || got[1].uri != "/here" || got[1].header.Get("Authorization") != "Bearer top-secret" || got[1].header.Get("X-Agent") != "sales" {
		t.Errorf("%+v", got)
	}
}

// TestRedirectToPrivate: only the operator can name a host on a private network.
func TestRedirectToPrivate(t *testing.T) {
	t.Parallel()
	server, _, other := newRedirecting(t, func(other string) string { return other })
	f := failCall(t, newSource(t, httptool.Config{}), server, newRequest(defineTool(t, getBinding("/x"), nil), `{}`))
	if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "private addresses are not allowed") || len(other.requests()) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestRedirectToMetadata(t *testing.T) {
	t.Parallel()
	server, _, _ := newRedirecting(t, func(string) string { return "http://169.254.169.254/latest/meta-data/" })
	f := failCall(t, newSource(t, httptool.Config{TrustedHosts: []string{"169.254.169.254"}}), server, newRequest(defineTool(t, getBinding("/x"), nil), `{}`))
	if f.Effect != tool.EffectNone || !strings.Contains(f.Message, "never dialled") {
		t.Errorf("%+v", f)
	}
}

// TestRedirectQuotesSecret: a redirect cannot pass the skill's key to another origin.
func TestRedirectQuotesSecret(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"K&y secret", "K%26y%20secret", "K%2526y%2520secret", "K%26y+secret"} {
		server, _, other := newRedirecting(t, func(other string) string { return other + "/?key=" + secret })
		s := newSource(t, httptool.Config{TrustedHosts: []string{"127.0.0.1"}})
		r := followRedirect(t, s, server, getBinding("/x"), `{}`)
		if !r.IsError || len(other.requests()) != 0 || !strings.HasPrefix(r.text(), "Upstream API returned 302: ") {
			t.Errorf("%s: %s, %d", secret, r.text(), len(other.requests()))
		}
		if strings.Contains(r.text(), secret) {
			t.Errorf("the redirect contains the secret: %s", r.text())
		}
	}
}

// TestRedirectOfPost: a redirected POST is not followed, because the first server may have acted on it.
func TestRedirectOfPost(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		server, first, other := newRedirecting(t, func(other string) string { return other })
		b := getBinding("/x")
		b.Method = method
		r := followRedirect(t, newSource(t, httptool.Config{TrustedHosts: []string{"127.0.0.1"}}), server, b, `{}`)
		if !r.IsError || !strings.HasPrefix(r.text(), "Upstream API returned 302: ") || len(other.requests()) != 0 || len(first.requests()) != 1 {
			t.Errorf("%s: %s", method, r.text())
		}
	}
}

func TestRedirectsWithoutEnd(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) })
	r := callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL), getBinding("/x"), `{}`)
	if !r.IsError || len(a.requests()) != 6 || !strings.Contains(r.text(), "More than 5 redirects") {
		t.Errorf("%d: %s", len(a.requests()), r.text())
	}
}

func TestRedirectToNowhere(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"", "ftp://a.example/", "javascript:alert(1)", "http://", "://", "file:///etc/passwd"} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			if location != "" {
				w.Header().Set("Location", location)
			}
			w.WriteHeader(http.StatusFound)
		})
		r := callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL), getBinding("/x"), `{}`)
		if !r.IsError || len(a.requests()) != 1 {
			t.Errorf("%q: %s", location, r.text())
		}
	}
}

// TestRedirectFromHTTPS: a redirect to plain http at another origin is not followed.
func TestRedirectFromHTTPS(t *testing.T) {
	t.Parallel()
	other := newAPI(t, nil)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }))
	t.Cleanup(secure.Close)
	transport, ok := secure.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("no transport")
	}
	s := newSource(t, httptool.Config{TLS: transport.TLSClientConfig, TrustedHosts: []string{"127.0.0.1"}})
	if r := callTool(t, s, skillAt(secure.URL), getBinding("/x"), `{}`); !r.IsError || len(other.requests()) != 0 || !strings.Contains(r.text(), "not encrypted") {
		t.Error(r.text())
	}
}

// listen serves raw connections.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(t.Context()), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}
