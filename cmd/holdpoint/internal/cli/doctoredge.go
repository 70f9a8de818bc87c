package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime"
)

// certificateNotice is the time before the end of a certificate in which renewal has usually happened.
const certificateNotice = 21 * 24 * time.Hour

// checkEdge checks the settings of incoming connections: the certificate, the public URL and the proxies.
func (e *Env) checkEdge(s *skillCheck) []finding {
	if err := s.edge.Check(); err != nil {
		return []finding{{fail, "listener", err.Error(), "serve does not start with it"}}
	}
	var findings []finding
	if _, err := s.edge.MetricsToken(); err != nil {
		findings = append(findings, finding{fail, "metrics", err.Error(), "serve does not start with it"})
	}
	if s.edge.TLSCert != "" {
		findings = append(findings, e.checkCertificate(s))
	}
	return append(findings, checkPublicURL(s)...)
}

// checkCertificate reads the certificate as serve does.
func (e *Env) checkCertificate(s *skillCheck) finding {
	const check = "TLS certificate"
	certificate, err := s.edge.Certificate(slog.New(slog.DiscardHandler), e.Now)
	if err != nil {
		return finding{fail, check, err.Error(), "serve does not start with it: give the chain and its key, both in PEM"}
	}
	end := certificate.NotAfter()
	f := finding{ok, check, s.edge.TLSCert + ", until " + formatTime(&end), ""}
	host := ""
	if u, err := url.Parse(s.publicURL); err == nil {
		host = u.Hostname()
	}
	switch left := end.Sub(e.Now()); {
	case left <= 0:
		f.Status, f.Advice = fail, "clients refuse it: replace the files; serve reads them again by itself"
	case host != "" && certificate.VerifyHostname(host) != nil:
		f.Status, f.Detail, f.Advice = fail, f.Detail+", is not for "+host, "clients refuse it: get one for the host of --public-url"
	case left < certificateNotice:
		f.Status, f.Advice = warn, "renew it; serve reads changed files again by itself"
	}
	return f
}

// checkPublicURL compares the public URL with the listener: what is public must be reachable, and a proxy must be named.
func checkPublicURL(s *skillCheck) []finding {
	const check = "public URL"
	shown := cmp.Or(s.publicURL, "http://"+s.addr)
	u, err := url.Parse(shown)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return []finding{{fail, check, shown + " must be http:// or https:// and a host", "serve does not start with it"}}
	}
	host, _, _ := net.SplitHostPort(s.addr)
	behind := u.Scheme == "https" && s.edge.TLSCert == ""
	switch {
	case s.publicURL == "" && !outbound.IsLoopbackHost(host):
		return []finding{{warn, check, "not set, and the server listens on " + s.addr, "set --public-url to the URL that people and agents use"}}
	case u.Scheme == "http" && !outbound.IsLoopbackHost(u.Hostname()):
		return []finding{{warn, check, shown + " is without TLS: credentials pass in the clear", "give --tls-cert and --tls-key, or put a proxy before it (docs/proxies.md)"}}
	case u.Scheme == "http" && s.edge.TLSCert != "" && s.publicURL != "":
		return []finding{{warn, check, shown + " is http, and the server has a TLS certificate", "set --public-url to the https URL"}}
	case behind && len(s.edge.TrustedProxies) == 0:
		return []finding{{
			warn, check, shown + " needs a proxy with TLS, and none is trusted: all clients have its address in logs and limits",
			"name its address with --trusted-proxies (docs/proxies.md)",
		}}
	}
	return []finding{{ok, check, shown, ""}}
}

// hasSignInSetting reports whether the settings let people sign in without an invitation.
func (s *skillCheck) hasSignInSetting(e *Env) bool {
	return s.bootstrap.File != "" || s.bootstrap.token != "" || e.Getenv("HOLDPOINT_BOOTSTRAP_TOKEN") != "" || s.providers.File != ""
}

// checkReviewers names the agents whose calls nobody can approve. People who come by a credential of the settings may be reviewers.
func (e *Env) checkReviewers(ctx context.Context, db *postgres.DB, box *secret.Box, s *skillCheck) []finding {
	if s.hasSignInSetting(e) {
		return nil
	}
	const check, advice = "reviewers", "invite a reviewer: holdpoint invitation create --name NAME --role reviewer"
	lacking, err := runtime.ExamineReviewers(ctx, runtime.Config{
		DB: db, Box: box, Logger: slog.New(slog.DiscardHandler), Now: e.Now, PublicURL: cmp.Or(s.publicURL, "http://"+s.addr),
	})
	if err != nil {
		return []finding{{fail, check, err.Error(), "look at the database's log"}}
	}
	var findings []finding
	for _, one := range lacking {
		text := fmt.Sprintf("nobody can approve calls of agent %s to skill %s", one.Agent, one.Skill)
		if one.Team != "" {
			text += ", of team " + one.Team
		}
		findings = append(findings, finding{warn, check, text, advice})
	}
	return findings
}

// checkAddress listens on the address of serve for a moment. A Holdpoint that answers there is no problem.
func checkAddress(ctx context.Context, s *skillCheck) []finding {
	const check = "address"
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	switch {
	case err == nil:
		_ = listener.Close() // it accepted nothing
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		if answersHealth(ctx, s) {
			return []finding{{ok, check, "a server of Holdpoint listens on " + s.addr, ""}}
		}
		return []finding{{fail, check, "another program listens on " + s.addr, "stop it (ss -ltnp shows it), or choose another address with --addr"}}
	case errors.Is(err, syscall.EACCES):
		return []finding{{fail, check, err.Error(), "choose a port from 1024 with --addr, or give the service the capability CAP_NET_BIND_SERVICE"}}
	}
	return []finding{{fail, check, err.Error(), "name an address of this machine with --addr, like 127.0.0.1:8080 or :8080"}}
}

// answersHealth reports whether a server of Holdpoint listens on the address of serve. It may not be ready yet.
func answersHealth(ctx context.Context, s *skillCheck) bool {
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	url := "http://" + net.JoinHostPort(host, port) + "/healthz"
	transport := &http.Transport{DisableKeepAlives: true}
	if s.edge.TLSCert != "" {
		url = "https" + strings.TrimPrefix(url, "http")
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // G402: nothing secret is sent, and checkCertificate verifies
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16))
	return err == nil && response.StatusCode == http.StatusOK && string(text) == "ok\n"
}

// addressTimeout bounds the answer of a program that has the address of serve.
const addressTimeout = 5 * time.Second

// checkPeople warns if there is no way to sign in.
func (e *Env) checkPeople(ctx context.Context, db *postgres.DB, s *skillCheck) []finding {
	people, err := identity.New(identity.Config{Pool: db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: e.Now})
	if err != nil {
		return []finding{{fail, "people", err.Error(), ""}}
	}
	defer people.Close()
	arrived, err := people.HasPeople(ctx)
	switch {
	case err != nil:
		return []finding{{fail, "people", err.Error(), "look at the database's log"}}
	case !arrived && !s.hasSignInSetting(e):
		return []finding{{warn, "people", "nobody can sign in yet", fmt.Sprintf("run %q with these settings", "holdpoint invite --first")}}
	}
	return nil
}
