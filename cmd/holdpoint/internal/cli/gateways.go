package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/inbound"
)

// Gateways are the server's settings for gateways that ask before they send a call.
type Gateways struct {
	Addr                       string   // of the gRPC services; empty: none
	Certificate, Key, ClientCA string   // files; empty: without TLS, or without clients' certificates
	Drafts                     []string // protocols that may still change
}

// The protocols of [Gateways.Drafts].
const (
	AccessRequests = "authzen-access-requests"
	ExtMcp         = "ext-mcp"
)

const (
	gatewayAddr     = "gateway-addr"
	gatewayCert     = "gateway-tls-cert"
	gatewayKey      = "gateway-tls-key"
	gatewayClientCA = "gateway-client-ca"
	gatewayDrafts   = "gateway-drafts"
)

// Bind adds the flags to a command of the server.
func (g *Gateways) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&g.Addr, gatewayAddr, "", "address on which Envoy and other gateways ask over gRPC (default none)")
	flags.StringVar(&g.Certificate, gatewayCert, "", "file with the certificate of --"+gatewayAddr+", in PEM, read again when it changes (default without TLS)")
	flags.StringVar(&g.Key, gatewayKey, "", "file with the key of --"+gatewayCert)
	flags.StringVar(&g.ClientCA, gatewayClientCA, "", "file with certificates, in PEM, one of which must have signed the gateway's own")
	flags.StringSliceVar(&g.Drafts, gatewayDrafts, nil, "protocols for gateways that may still change: "+AccessRequests+", "+ExtMcp)
}

// Check refuses invalid settings.
func (g *Gateways) Check() error {
	for _, draft := range g.Drafts {
		if draft != AccessRequests && draft != ExtMcp {
			return misusef("--%s %s: must be %s or %s", gatewayDrafts, draft, AccessRequests, ExtMcp)
		}
	}
	switch {
	case (g.Certificate == "") != (g.Key == ""):
		return misusef("--%s and --%s: must be given together", gatewayCert, gatewayKey)
	case g.ClientCA != "" && g.Certificate == "":
		return misusef("--%s: must be given with --%s", gatewayClientCA, gatewayCert)
	case g.Addr == "" && (g.Certificate != "" || g.Allows(ExtMcp)):
		return misusef("--%s: must be given with --%s and %s", gatewayAddr, gatewayCert, ExtMcp)
	}
	return nil
}

// Allows reports whether a draft is on.
func (g *Gateways) Allows(draft string) bool { return slices.Contains(g.Drafts, draft) }

// TLS reads the files. Nil: without TLS.
func (g *Gateways) TLS(log *slog.Logger, now func() time.Time) (*tls.Config, error) {
	if g.Certificate == "" {
		return nil, nil
	}
	certificate, err := inbound.OpenCertificate(g.Certificate, g.Key, log, now)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", gatewayCert, err)
	}
	cfg := &tls.Config{GetCertificate: certificate.Get, MinVersion: tls.VersionTLS12}
	if g.ClientCA == "" {
		return cfg, nil
	}
	text, err := os.ReadFile(g.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", gatewayClientCA, err)
	}
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--%s: %s: must have certificates in PEM", gatewayClientCA, g.ClientCA)
	}
	return cfg, nil
}
