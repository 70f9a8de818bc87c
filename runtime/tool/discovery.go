// Package tool owns tool definitions and their pins (the tables tool_definitions and skill_tools), the cached listings of skill servers,
// and [Source], the seam to the servers. It does not own skills, nor who may use which tool, and it sends no calls itself.
package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Errors of this package.
var (
	// ErrNotFound: the skill has no such tool, or no such definition is known.
	ErrNotFound = errors.New("tool not found")
	// ErrNoSource: this process has no source for the skill's transport.
	ErrNoSource = errors.New("transport is not available")
	// ErrSuperseded: the skill was changed or deleted while its tools were listed.
	ErrSuperseded = errors.New("skill was changed meanwhile")
	// ErrNotListed: the outcome of listing the skill's tools is not known yet.
	ErrNotListed = errors.New("tools are not listed yet")
	// ErrNotCurrent: the server no longer offers this definition.
	ErrNotCurrent = errors.New("definition is not the current one")
)

// DiscoveryConfig configures a [Discovery].
type DiscoveryConfig struct {
	Pool    *pgxpool.Pool
	Sources map[Transport]Source
	// Listed locks the skill in the first batch of the transaction that stores the tools of a listing. record runs after that batch. It adds
	// the record of the listing to the last batch, and returns the standing of the listing. The owner of skills provides it.
	Listed func(first *pgx.Batch, attempt Attempt) (record func(last *pgx.Batch) Standing)
	Logger *slog.Logger
	Now    func() time.Time // the clock of caches and durations
	// DefaultTTL is the time to live of a listing whose server sets none. Zero: 5 minutes.
	DefaultTTL time.Duration
	// FailureTTL is how long a failed listing is not tried again. Zero: 10 s.
	FailureTTL time.Duration
	// ListTimeout bounds a listing. Zero: 60 s.
	ListTimeout time.Duration
}

// Attempt is a listing of a skill that has ended.
type Attempt struct {
	SkillID  uuid.UUID
	Revision int64     // of the skill, when it was listed
	Began    time.Time // by the database's clock
	Failure  *Failure  // nil: it succeeded
	Tools    int       // number of listed tools
	Skipped  []Skipped // tools that were left out
	Took     time.Duration

	Generation int // see [Listing]
}

// Succeeded reports whether the server listed its tools.
func (a Attempt) Succeeded() bool { return a.Failure == nil }

// Standing says how a listing counts.
type Standing int

// The standings of a listing.
const (
	Superseded Standing = iota // the skill was changed or deleted meanwhile
	Outdated                   // a newer version of Holdpoint has listed the skill before
	Overtaken                  // a listing that began later was recorded before this one
	First                      // the first success since the skill was registered
	Later                      // any other
)

const (
	defaultTTL    = 5 * time.Minute
	failureTTL    = 10 * time.Second
	listTimeout   = time.Minute
	maxTTL        = 24 * time.Hour
	recheckAge    = time.Minute
	maxPinBytes   = 64 << 20 // definitions kept in memory
	maxPinEntries = 50_000   // pins of tools kept in memory
)

// Discovery lists the tools of skill servers, and caches listings, pins and definitions. It is safe for concurrent use.
type Discovery struct {
	pool    *pgxpool.Pool
	sources map[Transport]Source
	listed  func(first *pgx.Batch, attempt Attempt) (record func(last *pgx.Batch) Standing)
	log     *slog.Logger
	now     func() time.Time
	timeout time.Duration // of one listing

	listings    *registry.Memory[listingKey, listed]
	statuses    *registry.Memory[uuid.UUID, map[string]PinStatus]
	definitions *registry.Memory[Pin, Definition]
}

type listingKey struct {
	skillID   uuid.UUID
	revision  int64
	principal uuid.UUID // of a skill with a connection for each person
}

// listed is the outcome of a listing.
type listed struct {
	listing Listing
	failure *Failure
}

// NewDiscovery makes a Discovery.
func NewDiscovery(cfg DiscoveryConfig) (*Discovery, error) {
	if cfg.Pool == nil || cfg.Listed == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("discovery: Pool, Listed, Logger and Now are required")
	}
	if cfg.DefaultTTL == 0 {
		cfg.DefaultTTL = defaultTTL
	}
	if cfg.FailureTTL == 0 {
		cfg.FailureTTL = failureTTL
	}
	if cfg.ListTimeout == 0 {
		cfg.ListTimeout = listTimeout
	}
	return &Discovery{
		pool: cfg.Pool, sources: cfg.Sources, listed: cfg.Listed, log: cfg.Logger, now: cfg.Now, timeout: cfg.ListTimeout,
		listings: registry.NewMemory[listingKey](registry.Config[listed]{
			Now: cfg.Now, LoadTimeout: cfg.ListTimeout + 10*time.Second, Size: listed.countBytes, MaxSize: maxPinBytes,
			TTLOf: func(l listed) time.Duration { return l.chooseTTL(cfg.DefaultTTL, cfg.FailureTTL) },
		}),
		statuses: registry.NewMemory[uuid.UUID](registry.Config[map[string]PinStatus]{
			Now: cfg.Now, TTL: registry.SafetyNet, MaxSize: maxPinEntries,
			Size: func(pins map[string]PinStatus) int { return len(pins) + 1 },
		}),
		definitions: registry.NewMemory[Pin](registry.Config[Definition]{
			Now: cfg.Now, MaxSize: maxPinBytes, Size: func(d Definition) int { return len(d.raw) },
		}),
	}, nil
}

// Source returns the source of a transport. ErrNoSource.
func (d *Discovery) Source(transport Transport) (Source, error) {
	source, ok := d.sources[transport]
	if !ok {
		return nil, fmt.Errorf("transport %q: %w", transport, ErrNoSource)
	}
	return source, nil
}

// ListChanged drops the cached listings of a skill whose server announced other tools, or that a person connected or disconnected. The next
// List asks the server.
func (d *Discovery) ListChanged(skillID uuid.UUID) {
	d.listings.DropIf(func(key listingKey) bool { return key.skillID == skillID })
}

// Invalidate drops the cached pins. It is called on each notification of [registry.Channel]. Listings and definitions stay, because they
// do not depend on the registry.
func (d *Discovery) Invalidate() { d.statuses.Drop() }

// Close ends running listings and waits for them.
func (d *Discovery) Close() {
	d.listings.Close()
	d.statuses.Close()
	d.definitions.Close()
}

func (l listed) countBytes() int {
	n := 1
	for _, tool := range l.listing.Tools {
		n += len(tool.raw)
	}
	return n
}

// chooseTTL returns how long the outcome is cached. A listing with a shorter time to live is still cached for recheckAge: that the server
// could be listed is worth knowing.
func (l listed) chooseTTL(byDefault, afterFailure time.Duration) time.Duration {
	switch {
	case l.failure != nil:
		return afterFailure
	case l.listing.TTL == nil:
		return byDefault
	}
	return min(max(*l.listing.TTL, recheckAge), maxTTL)
}

// isCurrent reports whether the server allows the use of a listing of this age.
func (l listed) isCurrent(age time.Duration) bool {
	return l.listing.TTL == nil || age < *l.listing.TTL
}

// List returns the tools of a skill's server. It uses the cache while the listing is fresh. Otherwise it asks the server and stores the
// answer. A server that failed a moment ago is not asked again; its failure is returned. Errors are a *[Failure], [ErrSuperseded] if the
// skill changed meanwhile, or the database's.
func (d *Discovery) List(ctx context.Context, server Server, trustNewTools bool) (Listing, error) {
	l, err := d.listings.GetIf(ctx, newListingKey(server), listed.isCurrent, d.newLoader(server, trustNewTools))
	return l.unpackListing(server, err)
}

// ListCached is List for callers that do not wait: it returns the cached outcome, even one that List would not use. If nothing is
// cached, not even a failure, it starts a listing in the background and returns [ErrNotListed].
func (d *Discovery) ListCached(ctx context.Context, server Server, trustNewTools bool) (Listing, error) {
	if l, ok := d.listings.Peek(newListingKey(server)); ok {
		return l.unpackListing(server, nil)
	}
	d.listings.Start(ctx, newListingKey(server), d.newLoader(server, trustNewTools))
	return Listing{}, ErrNotListed
}

// Recheck lists the tools again, for the check at dispatch, unless a listing succeeded less than a minute, and less than its own time to
// live, ago. It reports false if the skill has a connection for each person, and this person is not offered the tool. Errors are those of List.
func (d *Discovery) Recheck(ctx context.Context, server Server, trustNewTools bool, toolName string) (bool, error) {
	young := func(l listed, age time.Duration) bool {
		return l.failure == nil && age < recheckAge && l.isCurrent(age)
	}
	l, err := d.listings.GetIf(ctx, newListingKey(server), young, d.newLoader(server, trustNewTools))
	listing, err := l.unpackListing(server, err)
	if err != nil {
		return false, err
	}
	return !server.PerUser || slices.ContainsFunc(listing.Tools, func(t Definition) bool { return t.Name == toolName }), nil
}

func newListingKey(server Server) listingKey {
	key := listingKey{skillID: server.SkillID, revision: server.Revision}
	if server.PerUser {
		key.principal = server.Principal
	}
	return key
}

func (l listed) unpackListing(server Server, err error) (Listing, error) {
	switch {
	case err != nil:
		return Listing{}, fmt.Errorf("list tools of %s: %w", server.Skill, err)
	case l.failure != nil:
		return Listing{}, fmt.Errorf("list tools of %s: %w", server.Skill, l.failure)
	}
	return l.listing, nil
}

func (d *Discovery) newLoader(server Server, trustNewTools bool) func(context.Context) (listed, error) {
	return func(ctx context.Context) (listed, error) { return d.refreshListing(ctx, server, trustNewTools) }
}

// refreshListing asks the server, records the answer and logs it. No transaction is open while the server works.
func (d *Discovery) refreshListing(ctx context.Context, server Server, trustNewTools bool) (listed, error) {
	attempt := Attempt{SkillID: server.SkillID, Revision: server.Revision}
	if err := d.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&attempt.Began); err != nil {
		return listed{}, err
	}
	var listing Listing
	asked := d.now()
	listing, attempt.Failure = d.listServer(ctx, server)
	listing.At = d.now()
	attempt.Tools, attempt.Skipped, attempt.Took = len(listing.Tools), listing.Skipped, listing.At.Sub(asked)
	attempt.Generation = listing.Generation
	changes, err := d.recordListing(ctx, attempt, listing.Tools, server.PerUser || server.Transport == Gate, trustNewTools)
	if err != nil {
		return listed{}, err
	}
	if len(changes) > 0 {
		d.Invalidate()
	}
	log := d.log.With("skill", server.Skill, "skill_id", server.SkillID)
	if failure := attempt.Failure; failure != nil {
		log.WarnContext(ctx, "skill could not be listed", "kind", failure.Kind, "error", failure.Message, "cause", failure.Err)
	}
	for _, skipped := range listing.Skipped {
		log.WarnContext(ctx, "tool was left out", "tool", skipped.Name, "reason", skipped.Reason)
	}
	if len(changes) > 0 {
		counts := map[audit.Action]int{}
		for _, c := range changes {
			counts[c.action]++
		}
		log.InfoContext(ctx, "tools of a skill changed", "tools", len(listing.Tools), "accepted", counts[audit.ToolsAccepted],
			"added", counts[audit.ToolAdded], "changed", counts[audit.ToolChanged], "removed", counts[audit.ToolRemoved])
	}
	return listed{listing, attempt.Failure}, nil
}

// listServer lists the tools and leaves out those that cannot be used.
func (d *Discovery) listServer(ctx context.Context, server Server) (Listing, *Failure) {
	source, err := d.Source(server.Transport)
	if err != nil {
		return Listing{}, &Failure{Kind: TransportFailure, Effect: EffectNone, Message: err.Error(), Err: err}
	}
	// The rest of the context's time is for storing the answer.
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	listing, err := source.List(ctx, server)
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return Listing{}, failure
	case err != nil:
		return Listing{}, &Failure{Kind: TransportFailure, Effect: EffectNone, Message: "tools/list: " + err.Error(), Err: err}
	}
	if listing.Tools, listing.Skipped, err = filterUsable(ctx, listing.Tools, listing.Skipped); err != nil {
		return Listing{}, &Failure{Kind: ProtocolFailure, Effect: EffectNone, Message: "tools/list: its schemas take too long to compile", Err: err}
	}
	return listing, nil
}

// filterUsable leaves out duplicate names, names with control characters, unusable schemas, and definitions that ParseDefinition did not
// make. Its error is that of ctx.
func filterUsable(ctx context.Context, tools []Definition, skipped []Skipped) ([]Definition, []Skipped, error) {
	seen := make(map[string]bool, len(tools))
	kept := make([]Definition, 0, len(tools))
	skipped = slices.Clone(skipped)
	for _, tool := range tools {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		reason := ""
		switch {
		case tool.pin.IsZero():
			reason = "its definition was not parsed"
		case strings.ContainsFunc(tool.Name, unicode.IsControl):
			reason = "its name has control characters"
		case seen[tool.Name]:
			reason = "another tool has the same name"
		default:
			if _, err := CompileSchemas(tool); err != nil {
				reason = err.Error()
			}
		}
		seen[tool.Name] = true
		if reason != "" {
			skipped = append(skipped, Skipped{tool.Name, reason})
			continue
		}
		kept = append(kept, tool)
	}
	return kept, skipped, nil
}
