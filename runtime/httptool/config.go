package httptool

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/oauthclient"
)

// Config is what a [Source] needs. Every zero field has the default named.
type Config struct {
	// Logger gets what servers and documents do wrong. Default: nothing is logged.
	Logger *slog.Logger
	// Version is sent to servers in User-Agent, as that of "holdpoint". Default "dev".
	Version string
	// Now is the clock of durations. Default time.Now.
	Now func() time.Time

	// OAuth gets the tokens of protected APIs. Default: there are none.
	OAuth *oauthclient.Service

	// Traces makes the spans of requests. Default: none are recorded.
	Traces *telemetry.Tracer

	// Document returns the OpenAPI document with a SHA-256, in hex, that was given by value. Default: there are none.
	Document func(ctx context.Context, digest string) ([]byte, error)

	// TLS is used for https. Default: Go's defaults.
	TLS *tls.Config
	// TrustedHosts are names that documents and redirects may lead to although they resolve to private addresses, see
	// [github.com/holdpoint/holdpoint/internal/outbound.Policy].
	TrustedHosts []string

	// Limits bound what servers and documents may take and send.
	Limits Limits
}

// Limits bound servers and documents. Zero fields have the defaults named.
type Limits struct {
	Connect time.Duration // connecting, and again the TLS handshake. Default 10 s
	List    time.Duration // one List, fetching the document and making tools of it included. Default 30 s

	Operations    int   // tools of one skill. Default 2,000
	ToolBytes     int   // of the definitions of one skill's tools together. Default 64 MiB
	DocumentBytes int64 // of one OpenAPI document. Default 32 MiB
	InputBytes    int   // of one tool's input schema. Default 256 KiB
	OutputBytes   int   // of one tool's output schema: a longer one is left out. Default 64 KiB

	ResultBytes int64 // of one answer. Default 16 MiB
	Documents   int   // how many skills' definitions are remembered. Default 16

	IdlePerHost int           // unused connections kept for a server. Default 128
	Idle        time.Duration // how long they are kept. Default 4 s: many servers close theirs after 5 s, and a call that meets a closing connection may count as sent
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
	set(&c.Version, "dev")
	l := &c.Limits
	set(&l.Connect, 10*time.Second)
	set(&l.List, 30*time.Second)
	set(&l.Operations, 2000)
	set(&l.ToolBytes, 64<<20)
	set(&l.DocumentBytes, 32<<20)
	set(&l.InputBytes, 256<<10)
	set(&l.OutputBytes, 64<<10)
	set(&l.ResultBytes, 16<<20)
	set(&l.Documents, 16)
	set(&l.IdlePerHost, 128)
	set(&l.Idle, 4*time.Second)
	return c
}

// set gives a zero field its default.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
