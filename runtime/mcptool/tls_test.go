package mcptool_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestOverTLS: broken calls have the same effects over TLS and HTTP/2.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		protocol := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			upstream := &script{session: "s1"}
			h := httptest.NewUnstartedServer(upstream)
			h.EnableHTTP2 = http2
			h.StartTLS()
			t.Cleanup(func() { closeServer(h) })
			roots := x509.NewCertPool()
			roots.AddCert(h.Certificate())
			s := newSource(t, mcptool.Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
			skill := httpSkill(h.URL)
			skill.Headers = map[string]string{"Idempotency-Key": "k"}
			var seen string
			upstream.at = map[string]act{"tools/call": func(w http.ResponseWriter, r *http.Request, m message) {
				seen = r.Proto
				upstream.standard(w, m)
			}}
			callTool(t, s, skill, "echo", `{"n":9007199254740993}`)
			if seen != protocol {
				t.Errorf("spoke %s", seen)
			}
			var all sync.WaitGroup
			upstream.mu.Lock()
			upstream.at = nil
			upstream.mu.Unlock()
			for range 64 {
				all.Go(func() {
					if _, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: "echo"}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for name, end := range map[string]act{
				"aborts": func(http.ResponseWriter, *http.Request, message) { panic(http.ErrAbortHandler) },
				"hangs":  waitForClient,
				"503":    answerStatus(503, "", ""),
			} {
				ctx, end := withBehavior(t, name, end)
				before := upstream.countRequests("tools/call")
				upstream.mu.Lock()
				upstream.at = map[string]act{"tools/call": end}
				upstream.mu.Unlock()
				f := failCall(ctx, t, s, skill)
				if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible {
					t.Errorf("%s: got %s, effect %s: %s", name, f.Kind, f.Effect, f.Message)
				}
				if n := upstream.countRequests("tools/call") - before; n != 1 {
					t.Errorf("%s: %d calls arrived", name, n)
				}
			}
		})
	}
}

func TestUnknownCertificateHasNoEffect(t *testing.T) {
	t.Parallel()
	upstream := &script{}
	h := httptest.NewUnstartedServer(upstream)
	h.Config.ErrorLog = quietLog()
	h.StartTLS()
	t.Cleanup(func() { closeServer(h) })
	s := newSource(t, mcptool.Config{})
	f := failCall(t.Context(), t, s, httpSkill(h.URL))
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone || !strings.Contains(f.Message, "certificate") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

func TestCredentialsOfTheURL(t *testing.T) {
	t.Parallel()
	upstream := &script{}
	s := newSource(t, mcptool.Config{})
	url := upstream.serve(t).URL
	callTool(t, s, httpSkill(strings.Replace(url, "http://", "http://me:pass@", 1)+"/mcp?key=1"), "echo", `{}`)
	for _, method := range []string{"initialize", "tools/call"} {
		if got := upstream.lastRequest(method).header.Get("Authorization"); got != "Basic bWU6cGFzcw==" {
			t.Errorf("%s: %q", method, got)
		}
	}
}
