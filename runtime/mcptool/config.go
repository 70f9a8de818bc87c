package mcptool

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config has the settings of a [Source]. Every zero field has the default named.
type Config struct {
	// Logger gets the lines that children write to stderr, and the errors of servers. Default: nothing is logged.
	Logger *slog.Logger
	// Version is sent to servers as the version of the client "holdpoint".
	// Default "dev".
	Version string
	// ListChanged is called when a skill's server announced that its tools changed, in a goroutine, one call at a time for each skill.
	// Default: announcements are ignored, and no stream is kept open for them.
	ListChanged func(skillID uuid.UUID)
	// OffersChanged is called when a skill's server announced that a list changed: "resources/list", which includes templates, or
	// "prompts/list". It must not block. Default: as with ListChanged.
	OffersChanged func(skillID uuid.UUID, method string)
	// ResourceUpdated is called when a resource with a subscription (see [Source.Subscribe]) changed. principal is the owner of the
	// connection, or uuid.Nil if all people share it. It must not block. Default: updates are ignored.
	ResourceUpdated func(skillID, principal uuid.UUID, uri string)
	// Now is the clock of durations and backoff. Default time.Now.
	Now func() time.Time

	// OAuth gets the tokens for protected servers. Default: there are no tokens.
	OAuth *oauthclient.Service

	// Traces makes the spans of requests. Default: none are recorded.
	Traces *telemetry.Tracer

	Limits Limits

	// TrustedHosts may resolve to private addresses although a skill named them when they were public; see
	// [tool.Server.PublicHosts].
	TrustedHosts []string
	// TLS is used for https skills. Default: Go's defaults.
	TLS *tls.Config

	// Stdio is the policy for commands and their sandbox.
	Stdio tool.StdioPolicy
	// DataDir holds the children's private HOME directories, at
	// homes/<skill id>. Without it stdio skills are refused.
	DataDir string
	// Path is the PATH of children, in which their programs are also looked
	// up. Default "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".
	Path string
	// Lang is the LANG of children. Default "C.UTF-8".
	Lang string
}

// Limits bound servers. Zero fields have the defaults named.
type Limits struct {
	Connect       time.Duration // connecting and negotiating over HTTP. Default 10 s
	Start         time.Duration // starting and negotiating over stdio; npx may have to download. Default 60 s
	DiscoverProbe time.Duration // waiting for a child's answer to server/discover before initialize. Default 3 s
	List          time.Duration // one List, connecting included. Default 15 s
	Stop          time.Duration // a child's time to end by itself, and again after SIGTERM. Default 2 s

	Pages       int   // of one tools/list. Default 100
	Tools       int   // of one tools/list. Default 1,000
	ListBytes   int64 // of one tools/list, all pages. Default 8 MiB
	ResultBytes int64 // of one call's result. Default 16 MiB

	TaskPoll time.Duration // least pause between two looks at a server's task. Default 250 ms

	SessionIdle time.Duration // how long an unused session of one person is kept. Default 15 min
	SharedIdle  time.Duration // how long an unused session or child that all people share is kept. Default 24 h
	Sessions    int           // of people, kept for all skills; more only while they are in use. Default 1,000

	IdlePerSkill int           // unused connections kept for an HTTP skill. Default 128
	Idle         time.Duration // how long they are kept. Default 4 s: many servers close theirs after 5 s, and a call that meets a closing connection may count as sent
}

// announces reports whether a server with these capabilities may announce changes that this Config wants to know of.
func (c Config) announces(o tool.Capabilities) bool {
	return o.ToolsListChanged && c.ListChanged != nil || (o.ResourcesListChanged || o.PromptsListChanged) && c.OffersChanged != nil
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
	setDefault(&c.Version, "dev")
	setDefault(&c.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	setDefault(&c.Lang, "C.UTF-8")
	l := &c.Limits
	setDefault(&l.Connect, 10*time.Second)
	setDefault(&l.Start, time.Minute)
	setDefault(&l.DiscoverProbe, 3*time.Second)
	setDefault(&l.List, 15*time.Second)
	setDefault(&l.Stop, 2*time.Second)
	setDefault(&l.Pages, 100)
	setDefault(&l.Tools, 1000)
	setDefault(&l.ListBytes, 8<<20)
	setDefault(&l.ResultBytes, 16<<20)
	setDefault(&l.TaskPoll, 250*time.Millisecond)
	setDefault(&l.SessionIdle, 15*time.Minute)
	setDefault(&l.SharedIdle, 24*time.Hour)
	setDefault(&l.Sessions, 1000)
	setDefault(&l.IdlePerSkill, 128)
	setDefault(&l.Idle, 4*time.Second)
	return c
}

// setDefault sets a zero field to its default.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
