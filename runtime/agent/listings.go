package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ListingsKept is how long it is known how listings of a skill went.
const ListingsKept = 30 * 24 * time.Hour

// listingPause is how long a listing that went as the one before it leaves no trace.
const listingPause = time.Minute

// noteListing keeps how a listing went, unless one that went the same way was kept a moment ago. The skill's
// row is locked.
func noteListing(ctx context.Context, tx pgx.Tx, attempt tool.Attempt) error {
	var kind, message *string
	var tools *int
	if f := attempt.Failure; f != nil {
		kind, message = new(f.ProblemKind()), new(storable(f.Message))
	} else {
		tools = &attempt.Tools
	}
	tag, err := tx.Exec(ctx, `INSERT INTO skill_listings (skill_id, at, error_kind, error, tools, duration_ms)
		SELECT $1, $2, $3, $4, $5, $6 WHERE NOT EXISTS (
			SELECT FROM (SELECT at, error_kind FROM skill_listings WHERE skill_id = $1 ORDER BY at DESC LIMIT 1) AS last
			WHERE last.error_kind IS NOT DISTINCT FROM $3 AND last.at > $7)
		ON CONFLICT DO NOTHING`,
		attempt.SkillID, attempt.Began, kind, message, tools, attempt.Took.Milliseconds(), attempt.Began.Add(-listingPause))
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM skill_listings WHERE skill_id = $1 AND at < $2`,
		attempt.SkillID, attempt.Began.Add(-ListingsKept))
	return err
}

// Span is how the listings of a skill went within a span of time.
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

// maxTroubles bounds how many are told apart.
const maxTroubles = 20

// Listings tells how listings of a skill went since some time: in spans of one width, those in which there was
// one, and the ways in which they failed, the latest first. Listings that went the same way within
// a minute count once.
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
