package inbound

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// reloadInterval is the time after which a handshake reads the certificate's files again.
const reloadInterval = time.Second

// Certificate is the TLS certificate of a listener, in two files. Handshakes use new contents of the files within a second.
// If these are invalid, the last valid certificate stays.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time

	mu      sync.Mutex
	checked time.Time
	read    []byte // contents that were read last, valid or not
	invalid error  // what is wrong with them
	current *tls.Certificate
	problem string // logged last; "": the files are valid
}

// OpenCertificate reads a certificate chain and its key, both in PEM.
func OpenCertificate(certFile, keyFile string, log *slog.Logger, now func() time.Time) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, now: now, checked: now()}
	return c, c.load()
}

// load reads the files, and renews the certificate if they have changed and are valid.
func (c *Certificate) load() error {
	chain, err := os.ReadFile(c.certFile)
	if err != nil {
		return fmt.Errorf("read the TLS certificate: %w", err)
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return fmt.Errorf("read the TLS key: %w", err)
	}
	both := slices.Concat(chain, key)
	if bytes.Equal(both, c.read) {
		return c.invalid
	}
	c.read, c.invalid = both, nil
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		c.invalid = fmt.Errorf("TLS certificate %s with key %s: %w", c.certFile, c.keyFile, err)
		return c.invalid
	}
	c.current = &pair
	return nil
}

// NotAfter returns the end of the certificate in use.
func (c *Certificate) NotAfter() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf.NotAfter
}

// VerifyHostname returns an error if the certificate in use is not for a host.
func (c *Certificate) VerifyHostname(host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf.VerifyHostname(host)
}

// Get returns the certificate for a handshake, as [tls.Config] wants it.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.checked) < reloadInterval {
		return c.current, nil
	}
	c.checked = now
	before, known := c.current, c.problem
	err := c.load()
	if c.problem = ""; err != nil {
		c.problem = err.Error()
	}
	switch {
	case err != nil && c.problem != known:
		c.log.Error("the TLS certificate cannot be renewed: the last valid one stays", "error", err, "not_after", before.Leaf.NotAfter)
	case before != c.current:
		c.log.Info("the TLS certificate was renewed", "file", c.certFile, "not_after", c.current.Leaf.NotAfter)
	}
	return c.current, nil
}
