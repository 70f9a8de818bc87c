package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ListingsKept is how long results of listings are kept.
const ListingsKept = 30 * 24 * time.Hour

// listingPause is the least time between two stored listings with the same result.
const listingPause = time.Minute

// queueListing stores the result of a listing, unless one with the same result was stored within listingPause. The caller holds
// the lock of the skill's row.
func queueListing(batch *pgx.Batch, attempt tool.Attempt) {
	var kind, message *string
	var tools *int
	if f := attempt.Failure; f != nil {
		kind, message = new(f.ProblemKind()), new(storableText(f.Message))
	} else {
		tools = &attempt.Tools
	}
	batch.Queue(`WITH stored AS (
			INSERT INTO skill_listings (skill_id, at, error_kind, error, tools, duration_ms)
			SELECT $1, $2, $3, $4, $5, $6 WHERE NOT EXISTS (
				SELECT FROM (SELECT at, error_kind FROM skill_listings WHERE skill_id = $1 ORDER BY at DESC LIMIT 1) AS last
				WHERE last.error_kind IS NOT DISTINCT FROM $3 AND last.at > $7)
			ON CONFLICT DO NOTHING RETURNING at)
		DELETE FROM skill_listings WHERE skill_id = $1 AND at < $8 AND EXISTS (SELECT FROM stored)`,
		attempt.SkillID, attempt.Began, kind, message, tools, attempt.Took.Milliseconds(),
		attempt.Began.Add(-listingPause), attempt.Began.Add(-ListingsKept))
}

// Span counts the listings of a skill within a span of time.
type Span struct {
	From      time.Time
	Succeeded int
	Failed    int
}

// Trouble is a way in which listings of a skill failed.
type Trouble struct {
	Kind        string // a tool.FailureKind, or tool.ProblemNeedsConnection
	Error       string // from outside
	Times       int
	First, Last time.Time
}

// maxTroubles bounds the number of different errors.
const maxTroubles = 20

// Listings summarizes the listings of a skill since some time: counts for each span that has any, and the errors, the latest
// first. Listings with the same result within a minute count once.
func (s *Service) Listings(ctx context.Context, skillID uuid.UUID, since time.Time, width time.Duration) ([]Span, []Trouble, error) {
	var spans []Span
	var troubles []Trouble
	batch := &pgx.Batch{}
	batch.Queue(`SELECT date_bin($3::interval, at, $2) AS span, count(*) FILTER (WHERE error_kind IS NULL),
			count(*) FILTER (WHERE error_kind IS NOT NULL)
		FROM skill_listings WHERE skill_id = $1 AND at >= $2 GROUP BY span ORDER BY span`, skillID, since, width).
		Query(func(rows pgx.Rows) (err error) {
			spans, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Span])
			return err
		})
	batch.Queue(`SELECT error_kind, error, count(*), min(at), max(at) FROM skill_listings
		WHERE skill_id = $1 AND at >= $2 AND error_kind IS NOT NULL
		GROUP BY error_kind, error ORDER BY max(at) DESC LIMIT $3`, skillID, since, maxTroubles).
		Query(func(rows pgx.Rows) (err error) {
			troubles, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Trouble])
			return err
		})
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("read listings of skill %s: %w", skillID, err)
	}
	return spans, troubles, nil
}

// QueueListing locks a skill's row in the first batch of a transaction. Its result judges a listing by that row, and records it in the
// last batch; see [tool.DiscoveryConfig].
func QueueListing(first *pgx.Batch, attempt tool.Attempt) func(last *pgx.Batch) tool.Standing {
	var exists, isFirst bool
	var latest *time.Time
	var generation int
	first.Queue(`SELECT true, discovered_at IS NULL, listed_at, listing_generation FROM skills
		WHERE id = $1 AND revision = $2 AND deleted_at IS NULL FOR UPDATE`, attempt.SkillID, attempt.Revision).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&exists, &isFirst, &latest, &generation); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("record listing of skill %s: %w", attempt.SkillID, err)
		}
		return nil
	})
	return func(last *pgx.Batch) tool.Standing {
		switch {
		case !exists:
			return tool.Superseded
		case attempt.Generation != 0 && attempt.Generation < generation:
			return tool.Outdated
		case latest != nil && !latest.Before(attempt.Began):
			return tool.Overtaken
		}
		queueListing(last, attempt)
		if attempt.Failure != nil {
			last.Queue(`UPDATE skills SET listed_at = $2, list_error_kind = $3, list_error = $4 WHERE id = $1`,
				attempt.SkillID, attempt.Began, attempt.Failure.ProblemKind(), storableText(attempt.Failure.Message))
			return tool.Later
		}
		last.Queue(`UPDATE skills SET listed_at = $2, list_error_kind = NULL, list_error = NULL,
			discovered_at = coalesce(discovered_at, $2), skipped = $3, listing_generation = $4 WHERE id = $1`,
			attempt.SkillID, attempt.Began, storableSkipped(attempt.Skipped), attempt.Generation)
		if isFirst {
			return tool.First
		}
		return tool.Later
	}
}

const (
	maxMessage = 500
	maxSkipped = 200 // skipped tools that are stored for a skill
)

// storableSkipped bounds the list of skipped tools. Its last element says how many more there were.
func storableSkipped(skipped []tool.Skipped) []tool.Skipped {
	list := make([]tool.Skipped, 0, min(len(skipped), maxSkipped+1))
	for i, s := range skipped {
		if i == maxSkipped {
			return append(list, tool.Skipped{Name: "…", Reason: fmt.Sprintf("and %d more", len(skipped)-maxSkipped)})
		}
		list = append(list, tool.Skipped{Name: storableText(s.Name), Reason: storableText(s.Reason)})
	}
	return list
}

// storableText bounds a text from outside for PostgreSQL.
func storableText(text string) string { return plain.Storable(text, maxMessage) }
