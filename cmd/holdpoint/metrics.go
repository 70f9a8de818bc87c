package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/holdpoint/holdpoint/internal/secret"
)

const metricsPath = "GET /metrics"

// mountMetrics serves /metrics on an address of its own if the settings have one, else on the main address. There, without
// a token, only this machine can read it.
func (s *server) mountMetrics(ctx context.Context, metrics http.Handler) error {
	token, err := s.settings.Edge.MetricsToken()
	if err != nil {
		return err
	}
	if token != "" {
		metrics = requireToken(token, metrics)
	}
	if s.settings.Edge.MetricsAddr == "" {
		if token == "" {
			metrics = requireLocal(metrics)
		}
		s.mux.Handle(metricsPath, metrics)
		return nil
	}
	listener, err := openListener(ctx, s.settings.Edge.MetricsAddr, s.settings.Edge, nil, s.log)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(metricsPath, metrics)
	s.metrics, s.metricsAddr = listener.Server(mux), listener.Addr()
	go func() {
		if err := listener.Serve(s.metrics); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("serve metrics", "error", err)
		}
	}()
	return nil
}

// requireToken serves requests with a bearer token.
func requireToken(token string, next http.Handler) http.Handler {
	want := secret.HashOf(token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		hash := secret.HashOf(strings.TrimSpace(got))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(hash[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			http.Error(w, "the token of --metrics-token-file is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// requireLocal serves requests from this machine that came through no proxy.
func requireLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().Unmap().IsLoopback() || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
			http.Error(w, "metrics are for this machine only: set --metrics-token-file or --metrics-addr to read them from elsewhere", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// maxSecureAge is how long browsers remember to use https only, in seconds: a year.
const maxSecureAge = "31536000"

// requireHTTPS tells browsers to use https only (HSTS), if the public URL is an https URL.
func requireHTTPS(publicURL string, next http.Handler) http.Handler {
	if !strings.HasPrefix(publicURL, "https://") {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age="+maxSecureAge)
		next.ServeHTTP(w, r)
	})
}
