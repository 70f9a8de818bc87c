package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Outward are the server's settings of outgoing connections: the hosts it trusts and its own identity.
type Outward struct {
	// TrustedHosts may be on private addresses and without https although a skill's server, a webhook or a callback names them.
	TrustedHosts []string
	// WorkloadTokenFile holds this server's own identity token. Empty: it has none.
	WorkloadTokenFile string
}

const (
	trustedHosts      = "trusted-hosts"
	workloadTokenFile = "workload-token-file"
)

// Bind adds the flags to a command of the server.
func (o *Outward) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.TrustedHosts, trustedHosts, nil,
		`hosts, "host" or "host:port", that may be on private addresses and without https although a skill's server, a webhook or a callback names them`)
	flags.StringVar(&o.WorkloadTokenFile, workloadTokenFile, "",
		"file with this server's own identity token (a JWT), for skills with the grant workload_identity; read anew for each use")
}

// Check refuses invalid settings and an unreadable token. It normalizes the hosts.
func (o *Outward) Check() error {
	hosts := make([]string, len(o.TrustedHosts))
	for i, host := range o.TrustedHosts {
		clean, err := trustedHost(host)
		if err != nil {
			return misusef("--%s %q: %w", trustedHosts, host, err)
		}
		hosts[i] = clean
	}
	o.TrustedHosts = hosts
	if o.WorkloadTokenFile == "" {
		return nil
	}
	_, err := readWorkloadToken(o.WorkloadTokenFile)
	return err
}

// WorkloadToken reads this server's own identity token. Nil: there is none.
func (o *Outward) WorkloadToken() func(context.Context) (string, error) {
	if o.WorkloadTokenFile == "" {
		return nil
	}
	path := o.WorkloadTokenFile
	return func(context.Context) (string, error) { return readWorkloadToken(path) }
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

const maxHostName = 253

// trustedHost normalizes a host, or a host and a port, for the dialer: an IPv6 address has brackets only beside a port.
func trustedHost(text string) (string, error) {
	wrong := errors.New(`must be "host" or "host:port", without a scheme, a path or a wildcard`)
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	if address, err := netip.ParseAddr(bare); err == nil && address.Zone() == "" {
		return address.String(), nil
	}
	if address, err := netip.ParseAddrPort(text); err == nil && address.Addr().Zone() == "" && address.Port() != 0 {
		return address.String(), nil
	}
	host, port, withPort := strings.Cut(text, ":")
	if withPort {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", wrong
		}
	}
	if !hostName.MatchString(host) || len(host) > maxHostName {
		return "", wrong
	}
	return text, nil
}

// maxWorkloadToken is above the size of any token, in bytes.
const maxWorkloadToken = 64 << 10

var compactJWT = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// readWorkloadToken reads a token. Errors do not contain the file's text.
func readWorkloadToken(path string) (string, error) {
	wrong := func(err error) error { return fmt.Errorf("--%s: %w", workloadTokenFile, err) }
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", wrong(err)
	case !info.Mode().IsRegular():
		return "", wrong(fmt.Errorf("%s is not a regular file", path))
	}
	file, err := os.Open(path)
	if err != nil {
		return "", wrong(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxWorkloadToken+1))
	if err != nil {
		return "", wrong(err)
	}
	token := strings.TrimSpace(string(text))
	switch {
	case len(text) > maxWorkloadToken:
		return "", wrong(fmt.Errorf("%s has more than %d bytes", path, maxWorkloadToken))
	case !compactJWT.MatchString(token):
		return "", wrong(fmt.Errorf("%s: must be one JWT, three parts with dots between them", path))
	}
	return token, nil
}
