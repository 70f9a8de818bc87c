// Package authserver owns the authorization server of the tests: npm's certified oidc-provider behind a front that tests control.
// The front counts and records requests, holds them, breaks them, and knows all secrets that the server has issued.
//
// oidc-provider runs in its own process, in memory, until the test ends. Stop closes only the front, so the server keeps its state
// for Restart.
package authserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

const startLimit = 5 * time.Minute // a machine under load

// Server is one authorization server.
type Server struct {
	// Issuer is its identifier, and where it is.
	Issuer string

	path    string // of the issuer
	address string
	control string // URL
	front   *front
	http    *http.Client // to the script

	mu        sync.Mutex
	listening *http.Server // nil: stopped
}

// Start starts a server that ends with the test.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", holdpoint.FreePort(t))
	s := &Server{Issuer: "http://" + address + c.Path, path: c.Path, address: address, http: &http.Client{Transport: &http.Transport{}}}
	config, err := c.scriptConfig(s.Issuer)
	if err != nil {
		t.Fatalf("configure the authorization server: %v", err)
	}
	ports := startScript(t, config)
	s.control = fmt.Sprintf("http://127.0.0.1:%d", ports.Control)
	s.front = newFront(c, address, fmt.Sprintf("127.0.0.1:%d", ports.Provider))
	s.Restart(t)
	t.Cleanup(func() {
		s.front.faults.releaseAll()
		s.Stop()
		s.front.close()
		s.http.CloseIdleConnections()
	})
	return s
}

type ports struct {
	Provider int `json:"provider"`
	Control  int `json:"control"`
}

// startScript runs server.mjs and waits for its ports.
func startScript(t testing.TB, config []byte) ports {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("Node.js is needed and not on the PATH; run `task setup`")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), node, scriptPath(t)) //nolint:gosec // G204: our own script
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the authorization server: %v", err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		if t.Failed() {
			t.Logf("the authorization server wrote:\n%s", said.String())
		}
	})
	found := make(chan ports, 1)
	go func() {
		defer close(found)
		var p ports
		if line, err := bufio.NewReader(stdout).ReadBytes('\n'); err == nil && json.Unmarshal(line, &p) == nil {
			found <- p
		}
	}()
	if _, err := stdin.Write(append(config, '\n')); err != nil {
		t.Fatalf("configure the authorization server: %v", err)
	}
	select {
	case p, ok := <-found:
		if !ok {
			t.Fatal("the authorization server ended before it listened; are the npm packages of e2e/package.json installed (`task setup`)?")
		}
		return p
	case <-time.After(startLimit):
		t.Fatalf("the authorization server does not listen after %s", startLimit)
	}
	return ports{}
}

// scriptPath returns the path of the script, for the tests of any package.
func scriptPath(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "e2e", "internal", "authserver", "server.mjs")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Stop closes the address and every connection, as if the server were down. It is for
// goroutines too.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening != nil {
		_ = s.listening.Close() // only its listener could complain
		s.listening = nil
	}
}

// Restart opens the address again, with all that the server knew.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening != nil {
		return
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatalf("listen for the authorization server: %v", err)
	}
	s.listening = &http.Server{Handler: s.front, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.listening) // it ends by Stop
}

// AddResource makes a resource known, or changes its scopes.
func (s *Server) AddResource(t testing.TB, url string, scopes ...string) {
	t.Helper()
	s.runCommand(t, "resource", resource{URL: url, Scopes: append([]string{}, scopes...)}, nil)
}

// AddClient registers a client, or changes its registration.
func (s *Server) AddClient(t testing.TB, c Client) {
	t.Helper()
	s.front.keepSecret(c.Secret)
	s.runCommand(t, "client", c, nil)
}

// SetPerson sets the claims of an account besides its name: those of the scopes profile, email and groups. The server must know
// these scopes.
func (s *Server) SetPerson(t testing.TB, account string, claims map[string]any) {
	t.Helper()
	s.runCommand(t, "person", map[string]any{"account": account, "claims": claims}, nil)
}

// ForgetClient makes a client unknown, as a server does that dropped a registration.
func (s *Server) ForgetClient(t testing.TB, id string) {
	t.Helper()
	var count int
	s.runCommand(t, "forgetClient", map[string]string{"client": id}, &count)
	if count == 0 {
		t.Fatalf("no client %q is registered", id)
	}
}

// SetAccessTokenSeconds is the lifetime of the access tokens that are issued from now on.
func (s *Server) SetAccessTokenSeconds(t testing.TB, seconds int) {
	t.Helper()
	s.runCommand(t, "lifetime", map[string]int{"seconds": seconds}, nil)
}

// Revoke invalidates all grants, codes and refresh tokens of a client; of all clients if it is empty. It returns their number.
// Access tokens are JWTs: tell their resource server too.
func (s *Server) Revoke(t testing.TB, client string) int {
	t.Helper()
	var count int
	s.runCommand(t, "revoke", map[string]string{"client": client}, &count)
	return count
}

func (s *Server) runCommand(t testing.TB, name string, arguments, result any) {
	t.Helper()
	if err := s.tryCommand(context.WithoutCancel(t.Context()), name, arguments, result); err != nil {
		t.Fatalf("authorization server, %s: %v", name, err)
	}
}

func (s *Server) tryCommand(ctx context.Context, name string, arguments, result any) error {
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.control+"/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(string(text))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(text, result)
}
