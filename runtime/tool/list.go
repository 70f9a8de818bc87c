package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// List returns what a skill's server offers: from memory while that is fresh, else
// it asks, and stores what it found before it returns. How long it is fresh, the server may say. A server that failed a moment ago is not
// asked again; its failure is returned. Errors are a *[Failure], or [ErrSuperseded] when the skill
// changed meanwhile, or the database's.
func (d *Discovery) List(ctx context.Context, server Server, trustNewTools bool) (Listing, error) {
	l, err := d.listings.GetIf(ctx, keyOf(server), listed.current, d.lister(server, trustNewTools))
	return l.result(server, err)
}

// Fresh reports whether a successful listing is remembered, be it one that List would not use any more. When nothing
// is, not even a failure, one is begun in the background.
func (d *Discovery) Fresh(ctx context.Context, server Server, trustNewTools bool) bool {
	if l, ok := d.listings.Peek(keyOf(server)); ok {
		return l.failure == nil
	}
	d.listings.Start(ctx, keyOf(server), d.lister(server, trustNewTools))
	return false
}

// Recheck returns a tool's pins for the check at dispatch, from the database,
// after listing the skill's tools anew unless that succeeded less than a
// minute, and less than the listing's own time to live, ago. Errors as those of List.
func (d *Discovery) Recheck(ctx context.Context, server Server, trustNewTools bool, toolName string) (PinStatus, error) {
	young := func(l listed, age time.Duration) bool {
		return l.failure == nil && age < recheckAge && l.current(age)
	}
	l, err := d.listings.GetIf(ctx, keyOf(server), young, d.lister(server, trustNewTools))
	listing, err := l.result(server, err)
	if err != nil {
		return PinStatus{}, err
	}
	pins, err := readPins(ctx, d.pool, server.SkillID)
	if err != nil {
		return PinStatus{}, err
	}
	status := pins[toolName]
	if server.PerUser { // what others are offered is of no account
		status.Known = slices.ContainsFunc(listing.Tools, func(t Definition) bool { return t.Name == toolName })
	}
	return status, nil
}

func keyOf(server Server) listingKey {
	key := listingKey{skillID: server.SkillID, revision: server.Revision}
	if server.PerUser {
		key.principal = server.Principal
	}
	return key
}

func (l listed) result(server Server, err error) (Listing, error) {
	switch {
	case err != nil:
		return Listing{}, fmt.Errorf("list tools of %s: %w", server.Skill, err)
	case l.failure != nil:
		return Listing{}, fmt.Errorf("list tools of %s: %w", server.Skill, l.failure)
	}
	return l.listing, nil
}

func (d *Discovery) lister(server Server, trustNewTools bool) func(context.Context) (listed, error) {
	return func(ctx context.Context) (listed, error) { return d.list(ctx, server, trustNewTools) }
}

// list asks the server and records the answer, in this order, with no
// transaction open while the server thinks.
func (d *Discovery) list(ctx context.Context, server Server, trustNewTools bool) (listed, error) {
	attempt := Attempt{SkillID: server.SkillID, Revision: server.Revision}
	if err := d.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&attempt.Began); err != nil {
		return listed{}, err
	}
	var listing Listing
	asked := d.now()
	listing, attempt.Failure = d.ask(ctx, server)
	attempt.Tools, attempt.Skipped, attempt.Took = len(listing.Tools), listing.Skipped, d.now().Sub(asked)
	attempt.Generation = listing.Generation
	var found changes
	err := postgres.InTx(ctx, d.pool, func(tx pgx.Tx) (err error) {
		found, err = d.record(ctx, tx, attempt, listing.Tools, server.PerUser, trustNewTools)
		return err
	})
	if err != nil {
		return listed{}, err
	}
	if !found.empty() {
		d.Invalidate()
	}
	d.logListing(ctx, server, listing, attempt.Failure, found)
	return listed{listing, attempt.Failure}, nil
}

// ask lists, and leaves out what cannot be used.
func (d *Discovery) ask(ctx context.Context, server Server) (Listing, *Failure) {
	source, err := d.Source(server.Transport)
	if err != nil {
		return Listing{}, &Failure{Kind: TransportFailure, Effect: EffectNone, Message: err.Error(), Err: err}
	}
	// What remains of the context after this is for storing the answer.
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
	if listing.Tools, listing.Skipped, err = usable(ctx, listing.Tools, listing.Skipped); err != nil {
		return Listing{}, &Failure{Kind: ProtocolFailure, Effect: EffectNone, Message: "tools/list: its schemas take too long to read", Err: err}
	}
	return listing, nil
}

// usable leaves out a second tool of one name, names with control characters,
// schemas that cannot be used, and definitions that did not come from ParseDefinition. An error: ctx is over.
func usable(ctx context.Context, tools []Definition, skipped []Skipped) ([]Definition, []Skipped, error) {
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

func (d *Discovery) logListing(ctx context.Context, server Server, listing Listing, failure *Failure, c changes) {
	log := d.log.With("skill", server.Skill, "skill_id", server.SkillID)
	if failure != nil {
		log.WarnContext(ctx, "skill could not be listed", "kind", failure.Kind, "error", failure.Message, "cause", failure.Err)
		return
	}
	for _, skipped := range listing.Skipped {
		log.WarnContext(ctx, "tool was left out", "tool", skipped.Name, "reason", skipped.Reason)
	}
	if !c.empty() {
		log.InfoContext(ctx, "tools of a skill changed", "tools", len(listing.Tools), "accepted", len(c.accepted),
			"added", len(c.added), "changed", len(c.changed), "removed", len(c.removed))
	}
}
