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

// Config is what a [Source] needs. Every zero field has the default named.
type Config struct {
	// Logger gets what children write to stderr and what servers do wrong.
	// Default: nothing is logged.
	Logger *slog.Logger
	// Version is sent to servers as the version of the client "holdpoint".
	// Default "dev".
	Version string
	// ListChanged is called, on a goroutine of its own and never twice at once
	// for a skill, when the skill's server announced that its tools changed.
	// Default: announcements are ignored and no stream is kept open for them.
	ListChanged func(skillID uuid.UUID)
	// OffersChanged is called when a skill's server announced that what a method lists changed: "resources/list", which
	// stands for templates too, or "prompts/list". It must not wait. Default: as with ListChanged.
	OffersChanged func(skillID uuid.UUID, method string)
	// ResourceUpdated is called when a skill's server said that a resource changed that [Source.Subscribe] asked
	// about. principal is whose connection it is, uuid.Nil: one that all share. It must not wait. Default: nobody is told.
	ResourceUpdated func(skillID, principal uuid.UUID, uri string)
	// Now is the clock of durations and backoff. Default time.Now.
	Now func() time.Time

	// OAuth gets the tokens of protected servers. Default: there are none.
	OAuth *oauthclient.Service

	// Traces makes the spans of requests. Default: none are recorded.
	Traces *telemetry.Tracer

	// Limits bound what servers may take and send.
	Limits Limits

	// TrustedHosts may resolve to private addresses although a skill named them when they were public; see
	// [tool.Server.PublicHosts].
	TrustedHosts []string
	// TLS is used for https skills. Default: Go's defaults.
	TLS *tls.Config

	// Stdio says which commands may be run, and what they may reach.
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

	SessionIdle time.Duration // how long a session of one person is kept that nobody uses. Default 15 min
	Sessions    int           // of people, kept for all skills; more only while they are in use. Default 1,000

	IdlePerSkill int           // unused connections kept for an HTTP skill. Default 128
	Idle         time.Duration // how long they are kept. Default 4 s: many servers close theirs after 5 s, and a call that meets a closing connection may count as sent
}

// announced reports whether a server may announce something that is listened to at all times.
func (c Config) announced(o tool.Capabilities) bool {
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
	set(&c.Version, "dev")
	set(&c.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	set(&c.Lang, "C.UTF-8")
	l := &c.Limits
	set(&l.Connect, 10*time.Second)
	set(&l.Start, time.Minute)
	set(&l.DiscoverProbe, 3*time.Second)
	set(&l.List, 15*time.Second)
	set(&l.Stop, 2*time.Second)
	set(&l.Pages, 100)
	set(&l.Tools, 1000)
	set(&l.ListBytes, 8<<20)
	set(&l.ResultBytes, 16<<20)
	set(&l.TaskPoll, 250*time.Millisecond)
	set(&l.SessionIdle, 15*time.Minute)
	set(&l.Sessions, 1000)
	set(&l.IdlePerSkill, 128)
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
