package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// RecordListing records the result of listing a skill. It runs in the transaction that stores the listed tools, and keeps the
// skill's row locked until that ends; see [tool.DiscoveryConfig].
func RecordListing(ctx context.Context, tx pgx.Tx, attempt tool.Attempt) (tool.Standing, error) {
	standing, err := recordListing(ctx, tx, attempt)
	if err != nil {
		return tool.Superseded, fmt.Errorf("record listing of skill %s: %w", attempt.SkillID, err)
	}
	return standing, nil
}

func recordListing(ctx context.Context, tx pgx.Tx, attempt tool.Attempt) (tool.Standing, error) {
	var first bool
	var last *time.Time
	var generation int
	err := tx.QueryRow(ctx, `SELECT discovered_at IS NULL, listed_at, listing_generation FROM skills
		WHERE id = $1 AND revision = $2 AND deleted_at IS NULL FOR UPDATE`,
		attempt.SkillID, attempt.Revision).Scan(&first, &last, &generation)
	if errors.Is(err, pgx.ErrNoRows) {
		return tool.Superseded, nil
	}
	if err != nil {
		return tool.Superseded, err
	}
	if attempt.Generation != 0 && attempt.Generation < generation {
		return tool.Outdated, nil
	}
	if last != nil && !last.Before(attempt.Began) {
		return tool.Overtaken, nil
	}
	if err := noteListing(ctx, tx, attempt); err != nil {
		return tool.Superseded, err
	}
	if attempt.Failure != nil {
		_, err := tx.Exec(ctx, `UPDATE skills SET listed_at = $2, list_error_kind = $3, list_error = $4 WHERE id = $1`,
			attempt.SkillID, attempt.Began, attempt.Failure.ProblemKind(), storable(attempt.Failure.Message))
		return tool.Later, err
	}
	_, err = tx.Exec(ctx, `UPDATE skills SET listed_at = $2, list_error_kind = NULL, list_error = NULL,
		discovered_at = coalesce(discovered_at, $2), skipped = $3, listing_generation = $4 WHERE id = $1`,
		attempt.SkillID, attempt.Began, storableSkipped(attempt.Skipped), attempt.Generation)
	if first {
		return tool.First, err
	}
	return tool.Later, err
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
		list = append(list, tool.Skipped{Name: storable(s.Name), Reason: storable(s.Reason)})
	}
	return list
}

// storable bounds a text from outside for PostgreSQL.
func storable(text string) string { return plain.Storable(text, maxMessage) }
