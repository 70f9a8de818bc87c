package httptool_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestSecretsBesidesTheBody: secrets are masked in the status line, the header and redirects.
func TestSecretsBesidesTheBody(t *testing.T) {
	t.Parallel()
	const secret = "Hunter2Hunter2"
	for name, test := range map[string]struct{ answer, told string }{
		"ETag":              {"200 OK\r\nETag: \"" + secret + "\"\r\nContent-Length: 0\r\n\r\n", `ETag: "…"`},
		"empty":             {"200 OK\r\nContent-Type: application/" + secret + "\r\nContent-Length: 0\r\n\r\n", "HTTP 200 OK"},
		"type of an error":  {"404 Not Found\r\nContent-Type: application/" + secret + "\r\nContent-Length: 2\r\n\r\n\x00\x01", "(2 bytes of an unknown type)"},
		"type of a picture": {"200 OK\r\nContent-Type: image/" + secret + "\r\nContent-Length: 2\r\n\r\n\x00\x01", "application/octet-stream"},
		"type of bytes":     {"200 OK\r\nContent-Type: application/" + secret + "\r\nContent-Length: 2\r\n\r\n\x00\x01", "application/octet-stream"},
		"coding":            {"200 OK\r\nContent-Encoding: " + strings.Repeat("x", 50) + secret + "\r\nContent-Length: 0\r\n\r\n", "content coding"},
		"no HTTP":           {"200 OK\r\n" + strings.Repeat("x", 10) + secret + "\r\n\r\n", "malformed"},
		"host of redirect":  {"302 Found\r\nLocation: http://" + secret + ".evil.example/\r\nContent-Length: 0\r\n\r\n", "to another origin, with a secret of the skill in the URL"},
		"small in redirect": {"302 Found\r\nLocation: http://" + strings.ToLower(secret) + ".evil.example/\r\nContent-Length: 0\r\n\r\n", "with a secret of the skill in the URL"},
		"half of an answer": {"200 OK\r\nContent-Length: 100\r\n\r\nit is " + secret, "broke in the middle of the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := skillAt(listen(t, func(c net.Conn) {
				if readRequest(t, bufio.NewReader(c)) {
					_, _ = io.WriteString(c, "HTTP/1.1 "+test.answer)
				}
			}))
			server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIBearer}, secret
			r, err := newSource(t, httptool.Config{}).Call(t.Context(), server, newRequest(defineTool(t, getBinding("/x"), nil), `{}`))
			told := string(r.Raw)
			if err != nil {
				told = encodeJSON(t, err) + err.Error()
			}
			if !strings.Contains(strings.ReplaceAll(told, `\"`, `"`), test.told) || strings.Contains(strings.ToLower(told), strings.ToLower(secret)[:7]) {
				t.Errorf("%s; want %q in it and nothing of the secret", told, test.told)
			}
		})
	}
}

// TestSecretInThePathOfARedirect: a redirect within the origin is followed, and the result's URI hides the secret.
func TestSecretInThePathOfARedirect(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x" {
			w.Header().Set("Location", fmt.Sprintf("/files/%%%x%s", "h", "unter2hunter2"))
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/pdf")
		_, _ = w.Write([]byte{0, 1})
	})
	server := skillAt(a.URL)
	server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIBearer}, "hunter2hunter2"
	r := callTool(t, newSource(t, httptool.Config{}), server, getBinding("/x"), `{}`)
	if len(r.Content) != 1 || r.Content[0].Resource.URI != a.URL || len(a.requests()) != 2 {
		t.Errorf("%s", r.Raw)
	}
}

// TestPreviewHidesTheType: the preview masks a secret in the content type, as results do.
func TestPreviewHidesTheType(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		_, _ = w.Write([]byte("{}"))
	})
	server := skillAt(a.URL)
	server.API = &tool.API{Preview: true, Auth: &tool.APIAuth{Type: tool.APIBearer}}
	server.AuthSecret = "Hunter2Hunter2"
	state, err := newSource(t, httptool.Config{}).Before(t.Context(), server, newRequest(defineTool(t, updateBinding(), nil), `{"id":"a","name":"new"}`))
	if err != nil || state.Media != "" {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestCookieKeyIsHidden: the key is masked in both its encoded and its decoded form.
func TestCookieKeyIsHidden(t *testing.T) {
	t.Parallel()
	const secret = "geheim, ü; \"wort\""
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		_, written, _ := strings.Cut(r.Header.Get("Cookie"), "=")
		read, err := url.PathUnescape(written)
		_, _ = fmt.Fprintf(w, "%s and %s, %v", written, read, err)
	})
	server := skillAt(a.URL)
	server.API.Auth, server.AuthSecret = &tool.APIAuth{Type: tool.APIKey, In: openapi.InCookie, Name: "sid"}, secret
	if r := callTool(t, newSource(t, httptool.Config{}), server, getBinding("/x"), `{}`); r.text() != "… and …, <nil>" {
		t.Errorf("%s", r.text())
	}
	if got := a.onlyRequest(t).header.Get("Cookie"); got != "sid=geheim%2C%20%C3%BC%3B%20%22wort%22" {
		t.Errorf("sent %s", got)
	}
}
