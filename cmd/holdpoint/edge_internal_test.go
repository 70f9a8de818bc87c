package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/certtest"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const edgeToken = "bootstrap-token-of-at-least-32-letters"

// openEdge serves Holdpoint on a database, until stop is called.
func openEdge(t *testing.T, change func(*serverSettings)) (s *server, db *postgres.DB, stop func()) {
	t.Helper()
	db = postgrestest.New(t)
	keyset, err := secret.NewKeyset()
	check(t, err)
	settings := serverSettings{
		Addr: "127.0.0.1:0", DataDir: t.TempDir(), DatabaseURL: db.Pool().Config().ConnString(), BootstrapToken: edgeToken, MaxConns: 5,
		EncryptionKey: keyset, Getenv: func(string) string { return "" },
		Edge: cli.Edge{MaxConnections: 100, MaxConnectionsPerAddress: 100},
	}
	if change != nil {
		change(&settings)
	}
	s, stop = serveEdge(t, settings)
	return s, db, stop
}

// serveEdge serves Holdpoint with settings, until stop is called.
func serveEdge(t *testing.T, settings serverSettings) (s *server, stop func()) {
	t.Helper()
	s, err := openServer(t.Context(), settings, "1.2.3", slog.New(slog.DiscardHandler))
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.serve(ctx, ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		check(t, <-done)
	}
	t.Cleanup(stop)
	return s, stop
}

func ask(t *testing.T, url string, header ...string) (status int, answer http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	check(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	return response.StatusCode, response.Header, string(text)
}

func TestMetricsAreNotForAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600))
	open, _, _ := openEdge(t, nil)
	url := "http://" + open.listener.Addr().String() + "/metrics"
	if status, header, body := ask(t, url); status != http.StatusOK || !strings.Contains(body, "holdpoint_http_connections") || header.Get("Strict-Transport-Security") != "" {
		t.Errorf("this machine: %d %v %.300s", status, header, body)
	}
	if status, _, _ := ask(t, url, "X-Forwarded-For", "198.51.100.7"); status != http.StatusForbidden {
		t.Errorf("through a proxy: %d", status)
	}
	guarded, _, _ := openEdge(t, func(s *serverSettings) {
		s.Edge.MetricsTokenFile, s.Edge.MetricsAddr, s.PublicURL = path, "127.0.0.1:0", "https://hold.example.com"
	})
	status, header, _ := ask(t, "http://"+guarded.listener.Addr().String()+"/metrics")
	if status != http.StatusNotFound || !strings.HasPrefix(header.Get("Strict-Transport-Security"), "max-age=") {
		t.Errorf("on the main address: %d %v", status, header)
	}
	own := "http://" + guarded.metricsAddr.String() + "/metrics"
	for token, want := range map[string]int{"": 401, "Bearer 0123456789abcdee": 401, "Bearer 0123456789abcdef": 200} {
		if status, _, _ := ask(t, own, "Authorization", token); status != want {
			t.Errorf("with %q: %d, want %d", token, status, want)
		}
	}
}

func TestFailedAuthenticationsAreCountedAndAudited(t *testing.T) {
	t.Parallel()
	s, db, stop := openEdge(t, nil)
	base := "http://" + s.listener.Addr().String()
	for range 3 {
		if status, _, _ := ask(t, base+"/api/v1/skills", "Authorization", "Bearer wrong"); status != http.StatusUnauthorized {
			t.Errorf("API: %d", status)
		}
		if status, _, _ := ask(t, base+"/agents/billing/mcp", "Authorization", "Bearer wrong"); status != http.StatusUnauthorized {
			t.Errorf("endpoint: %d", status)
		}
	}
	ask(t, base+"/api/v1/skills") // without a credential it is none
	if status, _, _ := ask(t, base+"/api/v1/skills", "Authorization", "Bearer "+edgeToken); status != http.StatusOK {
		t.Errorf("the right token: %d", status)
	}
	response, err := http.PostForm(base+"/sign-in", map[string][]string{"token": {"wrong"}})
	check(t, err)
	check(t, response.Body.Close())
	guessed := secret.NewCredential(secret.Invitation).Secret
	redeem, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v1/invitations/redeem", http.NoBody)
	check(t, err)
	redeem.Header.Set("Authorization", "Bearer "+guessed)
	response, err = http.DefaultClient.Do(redeem)
	check(t, err)
	check(t, response.Body.Close())
	if status, _, _ := ask(t, base+"/invitation?key="+guessed); response.StatusCode != http.StatusUnauthorized || status != http.StatusForbidden {
		t.Errorf("a guessed invitation: %d at the API, %d at the dashboard", response.StatusCode, status)
	}
	stop()
	events, err := audit.List(t.Context(), db.Pool(), audit.Filter{Limit: 100})
	check(t, err)
	got := map[string]int{}
	for _, e := range events {
		var data struct {
			Surface, Source string
			Count           int
		}
		if e.Action == audit.AuthenticationFailed {
			check(t, json.Unmarshal(e.Raw, &data))
			got[data.Surface+" "+data.Source] = data.Count
		}
	}
	if len(got) != 3 || got["api 127.0.0.1"] != 4 || got["endpoint 127.0.0.1"] != 3 || got["dashboard 127.0.0.1"] != 2 {
		t.Errorf("audited %v", got)
	}
}

// TestTLSListener: HTTP/2 with HSTS on the main address, whose URL is the public one, and plain metrics beside it.
func TestTLSListener(t *testing.T) {
	t.Parallel()
	files := certtest.Write(t, t.TempDir(), time.Now().Add(time.Hour))
	s, _, _ := openEdge(t, func(settings *serverSettings) {
		settings.Edge.TLSCert, settings.Edge.TLSKey, settings.Edge.MetricsAddr = files.Cert, files.Key, "127.0.0.1:0"
	})
	if want := "https://" + s.listener.Addr().String(); s.settings.PublicURL != want {
		t.Errorf("public URL %s, want %s", s.settings.PublicURL, want)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.Pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(s.settings.PublicURL + "/readyz")
	check(t, err)
	check(t, response.Body.Close())
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 2 || response.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s over %s, %v", response.Status, response.Proto, response.Header)
	}
	_, _, metrics := ask(t, "http://"+s.metricsAddr.String()+"/metrics")
	for _, want := range []string{
		"holdpoint_tls_certificate_not_after_seconds ", `holdpoint_http_requests_total{code="200",route="GET /readyz"} 1`,
		"holdpoint_http_requests_in_flight 0", `holdpoint_build_info{`, `version="1.2.3"`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics without %s", want)
		}
	}
}

// TestDrain: a server that is to stop says so to load balancers while it serves requests, each on its last connection.
func TestDrain(t *testing.T) {
	t.Parallel()
	s, _, _ := openEdge(t, nil)
	base := "http://" + s.listener.Addr().String()
	if status, header, body := ask(t, base+"/readyz"); status != http.StatusOK || header.Get("Connection") == "close" {
		t.Errorf("before: %d %v %s", status, header, body)
	}
	s.settings.Edge.DrainDelay = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan struct{})
	go func() {
		s.drain(ctx)
		close(drained)
	}()
	eventually.Holds(t, "readiness ends", func() bool {
		status, _, body := ask(t, base+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "stopping")
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/skills", http.NoBody)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+edgeToken)
	response, err := http.DefaultClient.Do(r)
	check(t, err)
	check(t, response.Body.Close())
	if response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("while draining: %s, the connection closes: %t", response.Status, response.Close)
	}
	cancel() // Ctrl-C
	<-drained
}

// TestRequestsAreLoggedWithoutSecrets: at debug level, by their routes.
func TestRequestsAreLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	mux := http.NewServeMux()
	mux.HandleFunc("GET /files/{secret}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	q := newRequests(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, path := range []string{"/files/hidden-1?token=hidden-2", "/hidden-3"} {
		q.observe(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	}
	for _, want := range []string{`route="GET /files/{secret}" status=418`, `route="" status=404`, "took="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("the log has a secret: %s", log.String())
	}
}

// TestSlowConnectionsEndAndOthersAreServed: with the deadlines of the real server, on each of its addresses.
func TestSlowConnectionsEndAndOthersAreServed(t *testing.T) {
	t.Parallel()
	s, _, _ := openEdge(t, func(settings *serverSettings) { settings.Edge.MetricsAddr = "127.0.0.1:0" })
	const limit = 5 * time.Minute
	slow := map[string]net.Conn{}
	addresses := map[string]string{"main": s.listener.Addr().String(), "metrics": s.metricsAddr.String()}
	for address, addr := range addresses {
		for name, text := range map[string]string{
			"silent":      "",
			"half header": "GET / HTTP/1.1\r\n",
			"idle":        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
			"slow form":   "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken=",
			"unread body": "POST /agents/billing/mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nContent-Length: 1000\r\n\r\n{",
		} {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			check(t, err)
			t.Cleanup(func() { c.Close() })
			check(t, c.SetDeadline(time.Now().Add(limit)))
			_, err = io.WriteString(c, text)
			check(t, err)
			slow[address+": "+name] = c
		}
	}
	if status, _, _ := ask(t, "http://"+addresses["main"]+"/api/v1/skills", "Authorization", "Bearer "+edgeToken); status != http.StatusOK {
		t.Errorf("meanwhile: %d", status)
	}
	if status, _, _ := ask(t, "http://"+addresses["metrics"]+"/metrics"); status != http.StatusOK {
		t.Errorf("meanwhile, metrics: %d", status)
	}
	for name, c := range slow {
		_, err := io.Copy(io.Discard, bufio.NewReader(c))
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			t.Errorf("%s: the server keeps the connection open", name)
		}
	}
}
