package cli

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/inbound"
)

// Edge are the server's settings of incoming connections.
type Edge struct {
	// TrustedProxies are the addresses of reverse proxies, unparsed.
	TrustedProxies []string
	// MaxConnections and MaxConnectionsPerAddress limit each listener.
	MaxConnections, MaxConnectionsPerAddress int
	// MetricsAddr is the address of /metrics. Empty: the main address.
	MetricsAddr string
	// MetricsTokenFile has the token for /metrics. Empty: none is needed.
	MetricsTokenFile string
	// TLSCert and TLSKey are the files of the certificate chain and its key. Empty: the server speaks plain HTTP.
	TLSCert, TLSKey string
	// DrainDelay is the time from SIGTERM until the server takes no more requests.
	DrainDelay time.Duration

	proxies clientaddr.Proxies
}

const (
	trustedProxies           = "trusted-proxies"
	maxConnections           = "max-connections"
	maxConnectionsPerAddress = "max-connections-per-address"
	metricsAddr              = "metrics-addr"
	metricsTokenFile         = "metrics-token-file" //nolint:gosec // G101: a flag
	tlsCert                  = "tls-cert"
	tlsKey                   = "tls-key"
	drainDelay               = "drain-delay"

	// DefaultDrainDelay is time for two health checks of a load balancer.
	DefaultDrainDelay = 5 * time.Second
	maxDrainDelay     = 10 * time.Minute
)

// Bind adds the flags to a command of the server.
func (e *Edge) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&e.TrustedProxies, trustedProxies, nil,
		`addresses or prefixes, like "10.0.0.7,fd00::/8", of reverse proxies whose X-Forwarded-For or Forwarded header names the client`)
	flags.IntVar(&e.MaxConnections, maxConnections, inbound.DefaultMaxConnections, "connections from clients; more have to wait")
	flags.IntVar(&e.MaxConnectionsPerAddress, maxConnectionsPerAddress, inbound.DefaultMaxConnectionsPerAddress,
		"connections from one address that is neither a trusted proxy nor this machine; more are refused")
	flags.StringVar(&e.MetricsAddr, metricsAddr, "", "address of its own to serve /metrics on (default the main one, for this machine only)")
	flags.StringVar(&e.MetricsTokenFile, metricsTokenFile, "", "file with the bearer token that /metrics requires, of at least 16 characters")
	flags.StringVar(&e.TLSCert, tlsCert, "", "file with the TLS certificate and its chain, in PEM, read again when it changes (default plain HTTP)")
	flags.StringVar(&e.TLSKey, tlsKey, "", "file with the key of the TLS certificate, in PEM")
	flags.DurationVar(&e.DrainDelay, drainDelay, DefaultDrainDelay,
		"how long /readyz answers 503 after SIGTERM before the server takes no more requests")
}

// Check refuses invalid settings.
func (e *Edge) Check() (err error) {
	if e.proxies, err = clientaddr.ParseProxies(e.TrustedProxies); err != nil {
		return misusef("--%s %w", trustedProxies, err)
	}
	if e.MaxConnections < 1 {
		return misusef("--%s %d: must be at least 1", maxConnections, e.MaxConnections)
	}
	if e.MaxConnectionsPerAddress < 1 {
		return misusef("--%s %d: must be at least 1", maxConnectionsPerAddress, e.MaxConnectionsPerAddress)
	}
	if (e.TLSCert == "") != (e.TLSKey == "") {
		return misusef("--%s and --%s: must be given together", tlsCert, tlsKey)
	}
	if e.DrainDelay < 0 || e.DrainDelay > maxDrainDelay {
		return misusef("--%s %s: must be between 0s and %s", drainDelay, e.DrainDelay, maxDrainDelay)
	}
	return nil
}

// Certificate opens the TLS certificate; nil if the server speaks plain HTTP.
func (e *Edge) Certificate(log *slog.Logger, now func() time.Time) (*inbound.Certificate, error) {
	if e.TLSCert == "" {
		return nil, nil
	}
	return inbound.OpenCertificate(e.TLSCert, e.TLSKey, log, now)
}

// Proxies are the trusted proxies, once [Edge.Check] has read them.
func (e *Edge) Proxies() clientaddr.Proxies { return e.proxies }

// minMetricsToken is the least length of the token for /metrics.
const minMetricsToken = 16

// MetricsToken reads the token for /metrics; "" if none is needed.
func (e *Edge) MetricsToken() (string, error) {
	if e.MetricsTokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(e.MetricsTokenFile)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", metricsTokenFile, err)
	}
	token := strings.TrimSpace(string(text))
	if utf8.RuneCountInString(token) < minMetricsToken {
		return "", fmt.Errorf("--%s: %s: must be a token of at least %d characters", metricsTokenFile, e.MetricsTokenFile, minMetricsToken)
	}
	return token, nil
}

// Inbound are the limits of a listener. This machine's own addresses are exempt from the limit per address: a reverse proxy
// may run on it.
func (e *Edge) Inbound() inbound.Config {
	exempt := append(slices.Clone(e.proxies), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	return inbound.Config{MaxConnections: e.MaxConnections, MaxConnectionsPerAddress: e.MaxConnectionsPerAddress, Exempt: exempt}
}
