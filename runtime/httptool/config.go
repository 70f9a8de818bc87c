package httptool

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
)

// Config configures a [Source]. Zero fields have the defaults named.
type Config struct {
	// Logger gets the faults of servers and documents. Default: nothing is logged.
	Logger *slog.Logger
	// Version is sent in User-Agent: "holdpoint/VERSION". Default "dev".
	Version string
	// Now is the clock that measures durations. Default time.Now.
	Now func() time.Time

	// OAuth gets the tokens of protected APIs. Default: no tokens.
	OAuth *oauthclient.Service

	// Traces makes the spans of requests. Default: none are recorded.
	Traces *telemetry.Tracer

	// Document returns an OpenAPI document that was given by value, by its SHA-256 in hex. Default: there are none.
	Document func(ctx context.Context, digest string) ([]byte, error)

	// TLS is used for https. Default: Go's defaults.
	TLS *tls.Config
	// TrustedHosts are host names with private addresses that documents and redirects may lead to, see
	// [github.com/holdpoint/holdpoint/internal/outbound.Policy].
	TrustedHosts []string

	// Limits bound servers and documents.
	Limits Limits
}

// Limits bound servers and documents. Zero fields have the defaults named.
type Limits struct {
	Connect time.Duration // connecting, and again the TLS handshake. Default 10 s
	List    time.Duration // one List, including the document and its definitions. Default 30 s

	Definitions   openapi.Limits // of one skill
	DocumentBytes int64          // of one OpenAPI document. Default 32 MiB
	ResultBytes   int64          // of one answer. Default 16 MiB
	Documents     int            // skills whose definitions are cached. Default 16

	IdlePerHost int           // idle connections to a server. Default 128
	Idle        time.Duration // their lifetime. Default 4 s: many servers close theirs after 5 s, and a call on a closing connection may count as sent
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the default that Config documents
	}
	if c.Traces == nil {
		c.Traces = telemetry.Off()
	}
	c.Version = cmp.Or(c.Version, "dev")
	l := &c.Limits
	l.Connect = cmp.Or(l.Connect, 10*time.Second)
	l.List = cmp.Or(l.List, 30*time.Second)
	l.DocumentBytes = cmp.Or(l.DocumentBytes, 32<<20)
	l.ResultBytes = cmp.Or(l.ResultBytes, 16<<20)
	l.Documents = cmp.Or(l.Documents, 16)
	l.IdlePerHost = cmp.Or(l.IdlePerHost, 128)
	l.Idle = cmp.Or(l.Idle, 4*time.Second)
	return c
}
