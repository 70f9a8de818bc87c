package cli

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
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

	proxies clientaddr.Proxies
}

const (
	trustedProxies           = "trusted-proxies"
	maxConnections           = "max-connections"
	maxConnectionsPerAddress = "max-connections-per-address"
	metricsAddr              = "metrics-addr"
	metricsTokenFile         = "metrics-token-file" //nolint:gosec // G101: a flag
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
	return nil
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
