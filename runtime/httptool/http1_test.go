package httptool_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
)

// TestHTTP1: requests use HTTP/1.1 even if the server offers HTTP/2. A request without arguments for the body has no
// body, since servers refuse a GET with one.
func TestHTTP1(t *testing.T) {
	t.Parallel()
	type seen struct {
		proto, negotiated, length string
		known                     int64
		coded, body               int
	}
	got := make(chan seen, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Proto, r.TLS.NegotiatedProtocol, r.Header.Get("Content-Length"), r.ContentLength, len(r.TransferEncoding), len(body)}
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	transport, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("no transport")
	}
	offering := transport.TLSClientConfig.Clone()
	offering.NextProtos = []string{"h2", "http/1.1"}
	s := newSource(t, httptool.Config{TLS: offering})
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE"} {
		b := getBinding("/x")
		b.Method = method
		if r := callTool(t, s, skillAt(server.URL), b, `{}`); r.IsError {
			t.Fatalf("%s: %s", method, r.text())
		}
		if r := <-got; r != (seen{proto: "HTTP/1.1", negotiated: "http/1.1"}) {
			t.Errorf("%s: the server got %+v, want HTTP/1.1 without a body", method, r)
		}
	}
}
