package inbound_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/certtest"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/inbound"
)

// logBuffer collects the log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), part)
}

func serveTLS(t *testing.T, handler http.HandlerFunc, files certtest.Files, log *logBuffer) *inbound.Listener {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(log, nil))
	certificate, err := inbound.OpenCertificate(files.Cert, files.Key, logger, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, handler, func(c *inbound.Config) { c.Certificate, c.Logger = certificate, logger })
}

func servedSerial(t *testing.T, l *inbound.Listener) *big.Int {
	t.Helper()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

// TestCertificateIsReloaded: new files are used without a restart. If they are invalid, the last valid certificate stays, and the
// log says so once.
func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &logBuffer{}
	first := certtest.Write(t, dir, time.Now().Add(time.Hour))
	l := serveTLS(t, echo, first, log)
	serves := func(want *big.Int) {
		t.Helper()
		eventually.Succeeds(t, limit, "the certificate", func() error {
			if got := servedSerial(t, l); got.Cmp(want) != 0 {
				return fmt.Errorf("serial %s, want %s", got, want)
			}
			return nil
		})
	}
	serves(first.Serial)
	second := certtest.Write(t, dir, time.Now().Add(2*time.Hour))
	serves(second.Serial)
	for _, broken := range []string{"no certificate", ""} {
		if err := os.WriteFile(second.Cert, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		before := log.count("cannot be renewed")
		eventually.Succeeds(t, limit, "the log of the broken certificate", func() error {
			if got := servedSerial(t, l); got.Cmp(second.Serial) != 0 {
				t.Fatalf("serial %s, want the last valid one, %s", got, second.Serial)
			}
			if log.count("cannot be renewed") == before && broken != "" {
				return errors.New("nothing is logged")
			}
			return nil
		})
	}
	if n := log.count("cannot be renewed"); n != 1 {
		t.Errorf("the same mistake was logged %d times", n)
	}
	third := certtest.Write(t, dir, time.Now().Add(3*time.Hour))
	serves(third.Serial)
	if n := log.count("was renewed"); n != 2 {
		t.Errorf("%d renewals were logged, want 2", n)
	}
}

// TestCertificateProblemsAreLoggedAgain: a mistake is logged once while it lasts, and again if it comes back after the files were as before.
func TestCertificateProblemsAreLoggedAgain(t *testing.T) {
	t.Parallel()
	log, now := &logBuffer{}, time.Now()
	files := certtest.Write(t, t.TempDir(), now.Add(time.Hour))
	certificate, err := inbound.OpenCertificate(files.Cert, files.Key, slog.New(slog.NewTextHandler(log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	handshake := func(logged int) {
		t.Helper()
		for range 2 {
			now = now.Add(time.Minute)
			if _, err := certificate.Get(nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := log.count("cannot be renewed"); n != logged {
			t.Errorf("%d mistakes are logged, want %d", n, logged)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for logged := 1; logged <= 2; logged++ {
		move(files.Cert, files.Cert+".away")
		handshake(logged)
		move(files.Cert+".away", files.Cert)
		handshake(logged)
	}
}

func TestCertificateMustBeValidAtStart(t *testing.T) {
	t.Parallel()
	one, other := certtest.Write(t, t.TempDir(), time.Now().Add(time.Hour)), certtest.Write(t, t.TempDir(), time.Now().Add(time.Hour))
	for name, files := range map[string][2]string{
		"no file":           {one.Cert + ".missing", one.Key},
		"no key":            {one.Cert, one.Key + ".missing"},
		"key of another":    {one.Cert, other.Key},
		"key instead of it": {one.Key, one.Key},
	} {
		if _, err := inbound.OpenCertificate(files[0], files[1], slog.New(slog.DiscardHandler), time.Now); err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestHTTP2 requests and uploads over HTTP/2, and HTTP/1.1 over TLS beside it.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	files := certtest.Write(t, t.TempDir(), time.Now().Add(time.Hour))
	l := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		echo(w, r)
	}, files, &logBuffer{})
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.Pool}, ForceAttemptHTTP2: want == "HTTP/2.0"}
		t.Cleanup(transport.CloseIdleConnections)
		response, err := (&http.Client{Transport: transport}).Post("https://"+l.Addr().String()+"/read", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.Header.Get("X-Proto") != want || string(text) != "1048576 bytes" {
			t.Errorf("%s: got %s, %q, %v", want, response.Header.Get("X-Proto"), text, err)
		}
	}
}

// TestUnreadStreamEnds: a client of HTTP/2 that does not read its response holds up neither the handler nor another stream.
func TestUnreadStreamEnds(t *testing.T) {
	t.Parallel()
	files := certtest.Write(t, t.TempDir(), time.Now().Add(time.Hour))
	ended, quiet := make(chan error, 1), make(chan struct{})
	l := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/much":
			_, err := w.Write(make([]byte, 8<<20))
			ended <- err
		case "/quiet": // a held response has no deadline
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-quiet
			fmt.Fprint(w, "late")
		default:
			fmt.Fprint(w, "ok")
		}
	}, files, &logBuffer{})
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.Pool}, ForceAttemptHTTP2: true}
	defer client.CloseIdleConnections()
	get := func(path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	held := get("/quiet")
	defer held.Body.Close()
	unread := get("/much")
	defer unread.Body.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("8 MiB were written to a client that read nothing")
		}
	case <-time.After(limit):
		t.Fatal("the handler still writes")
	}
	other := get("/other")
	defer other.Body.Close()
	if text, err := io.ReadAll(other.Body); err != nil || string(text) != "ok" {
		t.Errorf("another stream: %q, %v", text, err)
	}
	close(quiet)
	if text, err := bufio.NewReader(held.Body).ReadString(0); !errors.Is(err, io.EOF) || text != "late" {
		t.Errorf("the held stream: %q, %v", text, err)
	}
}

// TestPlainRequestToTLS gets an answer that names the mistake.
func TestPlainRequestToTLS(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	l := serveTLS(t, echo, certtest.Write(t, t.TempDir(), time.Now().Add(time.Hour)), log)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/read", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("status %s", response.Status)
	}
	if log.count("handshake") != 0 {
		t.Error("clients' mistakes are in the log")
	}
}
