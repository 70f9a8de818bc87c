package e2e_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// TestPushReachesNoTrustedHost: hosts that are trusted for skills are not trusted for a browser's push subscription.
func TestPushReachesNoTrustedHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer internal.Close()
	var reached atomic.Int32
	go func() {
		for {
			conn, err := internal.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	}()
	o := w.serverOptions()
	o.Args = append(o.Args, "--trusted-hosts", internal.Addr().String())
	p := program.Serve(t, o)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	t.Cleanup(browser.CloseIdleConnections)
	post := func(path string, form url.Values) int {
		t.Helper()
		response, err := browser.PostForm(p.URL+path, form)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	post("/sign-in", url.Values{"token": {bootstrapToken}})
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if status := post("/settings/push", url.Values{
		"endpoint": {"https://" + internal.Addr().String() + "/metrics"}, "auth": {base64.RawURLEncoding.EncodeToString(make([]byte, 16))},
		"p256dh": {base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())},
	}); status != http.StatusNoContent {
		t.Fatalf("subscribed: %d", status)
	}
	w.applyManifest(p, oneSkill(skill.NewCounting(t).URL, ""))
	agent := w.newAgent(p, "worker")
	made := make(chan error, 1)
	go func() {
		_, err := agent.Request(t.Context(), "tools/call", `{"name":"counting__record","arguments":{"n":1}}`)
		made <- err
	}()
	parked, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, "the message is refused", func() error {
		response, err := browser.Get(p.URL + "/settings")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(page), "is not at a public address") {
			err = fmt.Errorf("nothing on the page, and %d connections to the host", reached.Load())
		}
		return err
	})
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if err := operatorAPI(p).Reject(t.Context(), parked, "enough"); err != nil {
		t.Error(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
}
