// Package tool owns what skill servers offer: tool definitions and their pins
// (the tables tool_definitions and skill_tools), the cached listings they come
// from, and [Source], the one seam to the servers. It does not own skills, nor
// who may use which tool, and it sends no calls itself.
package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	// ErrNotCurrent: what is to be accepted is not what the server offers now.
	ErrNotCurrent = errors.New("definition is not the current one")
)

// DiscoveryConfig is what a [Discovery] needs.
type DiscoveryConfig struct {
	Pool    *pgxpool.Pool
	Sources map[Transport]Source
	// Listed records how a listing of a skill went, in the transaction that
	// stores what was found, and locks the skill until it ends. It
	// reports whether this is the skill's first success, or how else
	// the listing stands. The owner of skills provides it.
	Listed func(ctx context.Context, tx pgx.Tx, attempt Attempt) (Standing, error)
	Logger *slog.Logger
	Now    func() time.Time // times what is remembered, and how long listings take
	// DefaultTTL of a listing whose server gives none. Zero: 5 minutes.
	DefaultTTL time.Duration
	// FailureTTL: how long a failed listing is not tried again. Zero: 10 s.
	FailureTTL time.Duration
	// ListTimeout bounds a listing, whatever its source does. Zero: 60 s.
	ListTimeout time.Duration
}

// Attempt is one listing of a skill, ended.
type Attempt struct {
	SkillID  uuid.UUID
	Revision int64     // of the skill, when it was listed
	Began    time.Time // by the database's clock
	Failure  *Failure  // nil: it succeeded
	Tools    int       // that were listed
	Skipped  []Skipped // that were left out
	Took     time.Duration

	Generation int // see [Listing]
}

// Succeeded reports whether the server listed its tools.
func (a Attempt) Succeeded() bool { return a.Failure == nil }

// Standing is what a listing counts for.
type Standing int

// The standings of a listing.
const (
	Superseded Standing = iota // the skill was changed or deleted meanwhile
	Outdated                   // a newer version of Holdpoint has listed the skill before
	Overtaken                  // a listing that began later was recorded before this one
	First                      // the first that succeeded since the skill was registered
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

// Discovery knows what skill servers offer. It is safe for concurrent use.
type Discovery struct {
	pool    *pgxpool.Pool
	sources map[Transport]Source
	listed  func(ctx context.Context, tx pgx.Tx, attempt Attempt) (Standing, error)
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
	principal uuid.UUID // of a skill to which each person has a connection of their own
}

// listed is how a listing went.
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
			Now: cfg.Now, LoadTimeout: cfg.ListTimeout + 10*time.Second, Size: listed.size, MaxSize: maxPinBytes,
			TTLOf: func(l listed) time.Duration { return l.ttl(cfg.DefaultTTL, cfg.FailureTTL) },
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

// ListChanged forgets the listings of a skill: its server said that its tools
// changed. The next List asks it.
func (d *Discovery) ListChanged(skillID uuid.UUID) {
	d.listings.DropIf(func(key listingKey) bool { return key.skillID == skillID })
}

// Reconnected forgets the listings of a skill: somebody connected it, or its connection is gone.
func (d *Discovery) Reconnected(skillID uuid.UUID) { d.ListChanged(skillID) }

// Invalidate drops what is remembered of pins. It is called on every notice of
// [registry.Channel]. Listings and definitions stay: they do not depend on the registry.
func (d *Discovery) Invalidate() { d.statuses.Drop() }

// Close ends the listings under way and waits for them.
func (d *Discovery) Close() {
	d.listings.Close()
	d.statuses.Close()
	d.definitions.Close()
}

func (l listed) size() int {
	n := 1
	for _, tool := range l.listing.Tools {
		n += len(tool.raw)
	}
	return n
}

// ttl is how long it is remembered. What is current for a shorter time is remembered
// all the same: that the server could be listed is worth knowing.
func (l listed) ttl(byDefault, afterFailure time.Duration) time.Duration {
	switch {
	case l.failure != nil:
		return afterFailure
	case l.listing.TTL == nil:
		return byDefault
	}
	return min(max(*l.listing.TTL, recheckAge), maxTTL)
}

// current reports whether the server is content that a listing of this age is used.
func (l listed) current(age time.Duration) bool {
	return l.listing.TTL == nil || age < *l.listing.TTL
}
