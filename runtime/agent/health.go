package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// RecordListing writes how a listing of a skill went, in the transaction that
// stores what was found, and holds the lock of the skill's row until that ends; see
// [tool.DiscoveryConfig].
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
			attempt.SkillID, attempt.Began, problemKind(attempt.Failure), plain(attempt.Failure.Message))
		return tool.Later, err
	}
	_, err = tx.Exec(ctx, `UPDATE skills SET listed_at = $2, list_error_kind = NULL, list_error = NULL,
		discovered_at = coalesce(discovered_at, $2), skipped = $3, listing_generation = $4 WHERE id = $1`,
		attempt.SkillID, attempt.Began, leftOut(attempt.Skipped), attempt.Generation)
	if first {
		return tool.First, err
	}
	return tool.Later, err
}

const (
	maxMessage = 500
	maxLeftOut = 200 // tools that a listing left out are remembered
)

// leftOut is what is remembered of tools that a listing left out; how many there were besides comes last.
func leftOut(skipped []tool.Skipped) []tool.Skipped {
	list := make([]tool.Skipped, 0, min(len(skipped), maxLeftOut+1))
	for i, s := range skipped {
		if i == maxLeftOut {
			return append(list, tool.Skipped{Name: "…", Reason: fmt.Sprintf("and %d more", len(skipped)-maxLeftOut)})
		}
		list = append(list, tool.Skipped{Name: plain(s.Name), Reason: plain(s.Reason)})
	}
	return list
}

// plain bounds a text from outside and takes out what PostgreSQL would refuse.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}
