package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// UnusualBounds are the times on screen that divide [Unusual.Bands]. Decisions below the first are counted as hasty.
func UnusualBounds() []time.Duration {
	return []time.Duration{2 * time.Second, 10 * time.Second, time.Minute}
}

// Unusual holds the figures of decisions about calls with unusual values. Only the dashboard measures these decisions.
type Unusual struct {
	Bands     []UnusualBand // by time on screen; one more than there are bounds
	Reviewers []UnusualReviewer
}

// UnusualBand counts the decisions that took a similar time. A decision that took as long as the bound belongs above it.
type UnusualBand struct {
	Approved, Rejected int
}

// UnusualReviewer holds the figures of one reviewer; the most decisions come first.
type UnusualReviewer struct {
	PersonID  uuid.UUID
	Decisions int
	Median    time.Duration // on screen
	Hasty     int           // below the first bound
}

// readUnusual reads the figures of decisions about calls with unusual values.
func (f *FigureFilter) readUnusual(ctx context.Context, tx pgx.Tx) (Unusual, error) {
	bounds := UnusualBounds()
	found := Unusual{Bands: make([]UnusualBand, len(bounds)+1)}
	milliseconds := make([]int64, len(bounds))
	for i, b := range bounds {
		milliseconds[i] = b.Milliseconds()
	}
	rows, _ := tx.Query(ctx, `SELECT band, decided_by, count(*) FILTER (WHERE status = 'approved'), count(*) FILTER (WHERE status = 'rejected'),
			count(*) FILTER (WHERE band = 0), percentile_disc(.5) WITHIN GROUP (ORDER BY seen_ms)
		FROM (SELECT width_bucket(seen_ms, $5::bigint[]) AS band, decided_by, status, seen_ms FROM approvals
			WHERE created_at >= $1 AND created_at < $2 AND seen_unusual > 0 AND decided_by IS NOT NULL
				AND ($3::uuid[] IS NULL OR skill_id = ANY($3)) AND ($4::uuid[] IS NULL OR agent_id = ANY($4))) AS a
		GROUP BY GROUPING SETS ((band), (decided_by)) ORDER BY count(*) DESC, decided_by`, f.From, f.To, f.Skills, f.Agents, milliseconds)
	var band *int
	var person *uuid.UUID
	var approved, rejected, hasty int
	var median int64
	_, err := pgx.ForEachRow(rows, []any{&band, &person, &approved, &rejected, &hasty, &median}, func() error {
		if band != nil {
			found.Bands[*band] = UnusualBand{Approved: approved, Rejected: rejected}
			return nil
		}
		found.Reviewers = append(found.Reviewers, UnusualReviewer{
			PersonID: postgres.OrNil(person), Decisions: approved + rejected, Hasty: hasty, Median: time.Duration(median) * time.Millisecond,
		})
		return nil
	})
	if err != nil {
		return Unusual{}, fmt.Errorf("read decisions about unusual values: %w", err)
	}
	return found, nil
}
