package httptool_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// callWithAnswer calls a tool whose API gives this answer.
func callWithAnswer(t testing.TB, status int, header map[string]string, body string, b openapi.Binding, members map[string]any) result {
	t.Helper()
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	r, err := newSource(t, httptool.Config{}).Call(t.Context(), skillAt(a.URL), newRequest(defineTool(t, b, members), `{}`))
	if err != nil {
		t.Fatal(err)
	}
	return readResult(t, r)
}

func contentType(kind string) map[string]string { return map[string]string{"Content-Type": kind} }

func TestResultJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][2]string{
		` { "b" : 9007199254740993, "a":1.50,"u":"\u00fc" } `: {`{"b":9007199254740993,"a":1.50,"u":"\u00fc"}`, `{"b":9007199254740993,"a":1.50,"u":"\u00fc"}`},
		"[1, 2]":          {`[1,2]`, `{"result":[1,2]}`},
		`"text"`:          {`"text"`, `{"result":"text"}`},
		"null":            {"null", `{"result":null}`},
		"\uFEFF{\"a\":1}": {`{"a":1}`, `{"a":1}`},
	} {
		for _, kind := range []string{"application/json", "application/problem+json; charset=utf-8", "Application/JSON"} {
			r := callWithAnswer(t, 200, contentType(kind), body, getBinding("/x"), nil)
			if r.IsError || len(r.Content) != 1 || r.text() != want[0] || string(r.StructuredContent) != want[1] {
				t.Errorf("%s: %s", body, r.Raw)
			}
		}
	}
}

// TestResultThatClaimsToBeJSON: an invalid JSON answer becomes text with a note.
func TestResultThatClaimsToBeJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<html>", `{"a":1,"a":2}`, `{"a":1}{}`, "{"} {
		r := callWithAnswer(t, 200, contentType("application/json"), body, getBinding("/x"), nil)
		if r.IsError || len(r.Content) != 2 || r.Content[0].Text != body || r.StructuredContent != nil || !strings.Contains(r.Content[1].Text, "says that it is JSON") {
			t.Errorf("%q: %s", body, r.Raw)
		}
	}
}

func TestResultLargeJSON(t *testing.T) {
	t.Parallel()
	body := `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	if r := callWithAnswer(t, 200, contentType("application/json"), body, getBinding("/x"), nil); r.StructuredContent != nil || r.text() != body {
		t.Errorf("%.100s", r.Raw)
	}
	if r := callWithAnswer(t, 200, contentType("application/json"), body, getBinding("/x"), map[string]any{"outputSchema": map[string]any{"type": "object"}}); string(r.StructuredContent) != body {
		t.Errorf("%.100s", r.Raw)
	}
}

func TestResultText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ media, body, want string }{
		{"text/plain", "Ünï\x00\u202e", "Ünï\x00\u202e"},
		{"text/html; charset=iso-8859-1", "caf\xe9", "café"},
		{"text/plain; charset=windows-1252", "\x80 5", "€ 5"},
		{"text/plain; charset=shift_jis", "\x93\xfa\x96\x7b", "日本"},
		{"text/plain; charset=nonsense", "abc", "abc"},
		{"text/csv", "a,b\r\n\xff", "a,b\r\n\uFFFD"},
		{"text/plain", "\xff\xfea\x00b\x00", "ab"},
		{"image/svg+xml", "<svg/>", "<svg/>"},
		{"application/xml", "<a/>", "<a/>"},
		{"", "plain", "plain"},
		{"application/octet-stream", "plain", "plain"},
		{"application/octet-stream; charset=utf-8", "Ünï", "Ünï"},
		{"application/x-sh; charset=iso-8859-1", "caf\xe9\n", "café\n"},
		{"application/x-sh; charset=utf-16le", "a\x00b\x00", "ab"},
		{"application/x-sh; charset=nonsense", "abc", "abc"},
	} {
		r := callWithAnswer(t, 200, contentType(test.media), test.body, getBinding("/x"), nil)
		if r.IsError || len(r.Content) != 1 || r.text() != test.want || r.StructuredContent != nil {
			t.Errorf("%s %q: %s", test.media, test.body, r.Raw)
		}
	}
}

func TestResultBytes(t *testing.T) {
	t.Parallel()
	const bytes = "\x89PNG\r\n\x1a\n\x00\xff"
	data := base64.StdEncoding.EncodeToString([]byte(bytes))
	for kind, want := range map[string]string{
		"image/png": "image", "audio/mpeg": "audio", "application/pdf": "resource", "application/octet-stream": "resource", "video/mp4": "resource", "font/woff2": "resource",
	} {
		r := callWithAnswer(t, 200, contentType(kind), bytes, getBinding("/x"), nil)
		if len(r.Content) != 1 || r.Content[0].Type != want {
			t.Fatalf("%s: %s", kind, r.Raw)
		}
		c := r.Content[0]
		if want == "resource" {
			c.Data, c.MimeType = c.Resource.Blob, c.Resource.MimeType
			if !strings.HasSuffix(c.Resource.URI, "/x") {
				t.Errorf("%s: %s", kind, c.Resource.URI)
			}
		}
		if c.Data != data || c.MimeType != kind {
			t.Errorf("%s: %s", kind, r.Raw)
		}
	}
}

// TestResultBytesWithCharset: bytes that are invalid in the declared charset do not become text, and none is lost.
func TestResultBytesWithCharset(t *testing.T) {
	t.Parallel()
	for kind, body := range map[string]string{
		"application/pdf;charset=UTF-8":            "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
		"application/pdf; charset=iso-8859-1":      "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n\x01",
		"application/octet-stream; charset=utf-8":  "\x89PNG\r\n\x1a\n\xff",
		"application/zip; charset=binary":          "PK\x03\x04",
		"application/x-protobuf; charset=utf-8":    "\n\x05hello",
		"application/x-thing; charset=utf-8":       "a\x00b",
		"application/x-thing; charset=shift_jis":   "\x93\xfa\xff",
		"video/mp4; charset=utf-8":                 "ftyp",
		"application/octet-stream":                 "abc\xe9",
		"application/octet-stream; charset=utf-16": "\x00\xd8\x00",
	} {
		r := callWithAnswer(t, 200, contentType(kind), body, getBinding("/x"), nil)
		base, _, _ := strings.Cut(kind, ";")
		if len(r.Content) != 1 || r.Content[0].Type != "resource" || r.Content[0].Resource.MimeType != base ||
			r.Content[0].Resource.Blob != base64.StdEncoding.EncodeToString([]byte(body)) {
			t.Errorf("%s: %s", kind, r.Raw)
		}
	}
}

func TestResultEmpty(t *testing.T) {
	t.Parallel()
	if r := callWithAnswer(t, 204, nil, "", getBinding("/x"), nil); r.IsError || r.text() != "HTTP 204 No Content" || r.Exchange.Status != 204 {
		t.Errorf("%s", r.Raw)
	}
	if r := callWithAnswer(t, 202, map[string]string{"Location": "/jobs/7", "Content-Type": "application/json"}, `{"id":7}`, getBinding("/x"), nil); r.text() != "{\"id\":7}\nLocation: /jobs/7" || string(r.StructuredContent) != `{"id":7}` {
		t.Errorf("%s", r.Raw)
	}
	head := getBinding("/x")
	head.Method = http.MethodHead
	if r := callWithAnswer(t, 200, map[string]string{"ETag": `"v1"`, "Content-Type": "text/plain"}, "", head, nil); !strings.HasPrefix(r.text(), "HTTP 200 OK\nContent-Type: text/plain") || !strings.HasSuffix(r.text(), "ETag: \"v1\"") {
		t.Errorf("%s", r.text())
	}
}

func TestResultErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status     int
		media      string
		body, want string
	}{
		{404, "application/json", `{"error": "no such city"}`, `Upstream API returned 404: {"error":"no such city"}`},
		{404, "text/plain", "no such city\n", "Upstream API returned 404: no such city"},
		{404, "", "", "Upstream API returned 404: Not Found"},
		{418, "image/png", "\x89PNG\x00", "Upstream API returned 418: (5 bytes of image/png)"},
		{304, "", "", "Upstream API returned 304: Not Modified"},
		{599, "", "", "Upstream API returned 599\nIt may have been executed: do not repeat it blindly."},
	} {
		r := callWithAnswer(t, test.status, contentType(test.media), test.body, getBinding("/x"), nil)
		if !r.IsError || r.text() != test.want || len(r.Content) != 1 {
			t.Errorf("%d: %q, want %q", test.status, r.text(), test.want)
		}
	}
	r := callWithAnswer(t, 400, contentType("text/plain"), strings.Repeat("ü", 100<<10), getBinding("/x"), nil)
	if len(r.text()) > 33<<10 || !strings.Contains(r.text(), "longer than 32768 bytes") {
		t.Errorf("%d bytes", len(r.text()))
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	const answer = `{"items":[{"id":9007199254740993,"name":"a","big":1e400},{"id":2,"name":"b"}],"next":null}`
	for program, want := range map[string]string{
		".items[].id":                        "9007199254740993\n2",
		"[.items[] | {id, name}]":            `[{"id":9007199254740993,"name":"a"},{"id":2,"name":"b"}]`,
		".items | length":                    "2",
		"empty":                              "[The call succeeded, and the skill's select makes nothing of its answer.]",
		`.items[0].name, ("x"|ascii_upcase)`: "\"a\"\n\"X\"",
		"env | length":                       "0",
		"$ENV | length":                      "0",
	} {
		b := getBinding("/x")
		b.Select = program
		r := callWithAnswer(t, 200, contentType("application/json"), answer, b, nil)
		if r.IsError || r.text() != want || r.StructuredContent != nil {
			t.Errorf("%s: %s, want %s", program, r.Raw, want)
		}
	}
}

// TestSelectFails: a failed program does not turn a successful call into a failed one.
func TestSelectFails(t *testing.T) {
	t.Parallel()
	const answer = `{"a":[1,2]}`
	for _, program := range []string{".a.b", "error(\"x\")", "input", "not a program (", `import "x" as x; .`, "[limit(10; repeat(1))] | .[100].x.y | error", `def f: f; f`, "[range(100000)] | map(tostring * 10)", "halt_error"} {
		b := getBinding("/x")
		b.Select = program
		r := callWithAnswer(t, 200, contentType("application/json"), answer, b, nil)
		if r.IsError || r.Effect != "" || len(r.Content) != 2 || r.Content[0].Text != answer || !strings.HasPrefix(r.Content[1].Text, "[The call succeeded.") || r.StructuredContent != nil {
			t.Errorf("%s: %.300s", program, r.Raw)
		}
	}
}

// TestSelectOfErrors: programs do not run on errors.
func TestSelectOfErrors(t *testing.T) {
	t.Parallel()
	b := getBinding("/x")
	b.Select = ".a"
	if r := callWithAnswer(t, 404, contentType("application/json"), `{"a":1,"b":2}`, b, nil); !r.IsError || r.text() != `Upstream API returned 404: {"a":1,"b":2}` {
		t.Errorf("%s", r.Raw)
	}
	if r := callWithAnswer(t, 200, contentType("text/plain"), "text", b, nil); r.IsError || r.text() != "text" {
		t.Errorf("%s", r.Raw)
	}
}

func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/x?"+r.URL.RawQuery)
		w.Header().Set("Retry-After", r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/401":
			w.Header().Set("Www-Authenticate", `Bearer error="`+r.Header.Get("Authorization")+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		case "/text", "/cut":
			w.Header().Set("Content-Type", "text/plain; charset=iso-8859-1")
		case "/bytes":
			w.Header().Set("Content-Type", "application/pdf")
		case "/302":
			w.WriteHeader(http.StatusFound)
		}
		if r.URL.Path == "/cut" {
			w.Header().Set("Content-Length", "100000")
		}
		_, _ = io.WriteString(w, `{"url": "`+r.RequestURI+`", "authorization": "`+r.Header.Get("Authorization")+`", "key": "`+r.URL.Query().Get("key")+
			`", "org": "`+r.Header.Get("X-Org")+`", "cookie": "`+r.Header.Get("Cookie")+`"}`)
	}
	secrets := []string{"top-secret", "other-secret", "session-secret", "K&y secret", "K%26y%20secret", "dXNlcjpwYXNzLXNlY3JldA"}
	a := newAPI(t, echo)
	basic := skillAt(a.URL)
	basic.API.Auth, basic.AuthSecret = &tool.APIAuth{Type: tool.APIBasic, Username: "user"}, "pass-secret"
	all := newSecretive(a.URL)
	all.Headers["Authorization"] = "Bearer top-secret"
	s := newSource(t, httptool.Config{})
	for _, server := range []tool.Server{all, basic} {
		for _, path := range []string{"/200", "/404", "/401", "/text", "/bytes", "/302", "/cut"} {
			b := getBinding(path)
			if path == "/302" {
				b.Method = http.MethodPost
			}
			r, err := s.Call(t.Context(), server, newRequest(defineTool(t, b, nil), `{}`))
			told := string(r.Raw)
			if err != nil {
				told = encodeJSON(t, err) + err.Error()
			}
			if path == "/bytes" {
				blob, err := base64.StdEncoding.DecodeString(readResult(t, r).Content[0].Resource.Blob)
				if err != nil {
					t.Fatal(err)
				}
				told += string(blob)
			}
			for _, secret := range append(secrets, `K\u0026y secret`) {
				if strings.Contains(told, secret) {
					t.Errorf("%s tells %s: %s", path, secret, told)
				}
			}
			if !strings.Contains(told, "…") {
				t.Errorf("%s: nothing was taken out of %s", path, told)
			}
			if path == "/401" && !strings.HasPrefix(readResult(t, r).text(), "Upstream API returned 401: ") {
				t.Errorf("%s", told)
			}
		}
	}
}

// TestShortHeaderValuesStay: short header values are not masked in answers.
func TestShortHeaderValuesStay(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "en v1 application/json") })
	server := skillAt(a.URL)
	server.Headers = map[string]string{"Accept-Language": "en", "X-Version": "v1", "Accept": "application/json"}
	if r := callTool(t, newSource(t, httptool.Config{}), server, getBinding("/x"), `{}`); r.text() != "en v1 application/json" {
		t.Errorf("%s", r.text())
	}
	if got := a.onlyRequest(t).header.Get("Accept"); got != "application/json" {
		t.Errorf("Accept %q", got)
	}
}

// TestLengthsOfSecrets: credentials are masked from 8 bytes on, header values from 12.
func TestLengthsOfSecrets(t *testing.T) {
	t.Parallel()
	const answer = "1234567 12345678 abcdefghijk abcdefghijkl"
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
	s := newSource(t, httptool.Config{})
	for _, test := range []struct{ header, value, key, want string }{
		{"", "", "1234567", answer},
		{"", "", "12345678", "1234567 … abcdefghijk abcdefghijkl"},
		{"Authorization", "Bearer 1234567", "", answer},
		{"Authorization", "Bearer 12345678", "", "1234567 … abcdefghijk abcdefghijkl"},
		{"Cookie", "a=1234567", "", answer},
		{"Cookie", "a=12345678", "", "1234567 … abcdefghijk abcdefghijkl"},
		{"X-Org", "abcdefghijk", "", answer},
		{"X-Org", "abcdefghijkl", "", "1234567 12345678 abcdefghijk …"},
		{"Accept-Language", "abcdefghijkl", "", answer},
	} {
		server := skillAt(a.URL)
		if test.key != "" {
			server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIKey, In: openapi.InHeader, Name: "X-Key"}, test.key
		} else {
			server.Headers = map[string]string{test.header: test.value}
		}
		if r := callTool(t, s, server, getBinding("/x"), `{}`); r.text() != test.want {
			t.Errorf("%s %s%s: %s, want %s", test.header, test.value, test.key, r.text(), test.want)
		}
	}
}
