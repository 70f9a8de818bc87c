package history

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call"
)

const (
	minIDEnd  = 6     // digits of an id that are looked for
	recentIDs = 1_000 // calls whose ids are compared with the end of an id
)

// FindByID returns the calls with an id, or with the end of one, newest first and at most limit. An end has at least 6 digits, and is
// compared with the ids of the newest 1,000 calls only. Dashes, spaces and an ellipsis do not count. It reports false for any other text.
func (s *Service) FindByID(ctx context.Context, text string, limit int) (found []call.Call, isID bool, err error) {
	digits := strings.ToLower(strings.NewReplacer("-", "", "…", "", " ", "").Replace(text))
	if !isHex(digits) || len(digits) < minIDEnd || len(digits) > 2*len(uuid.UUID{}) {
		return nil, false, nil
	}
	var ids []uuid.UUID
	if id, err := uuid.Parse(digits); err == nil {
		ids = []uuid.UUID{id}
	} else {
		rows, _ := s.calls.Pool.Query(ctx, `SELECT id FROM (SELECT id FROM calls ORDER BY id DESC LIMIT $1) recent
			WHERE right(replace(id::text, '-', ''), length($2)) = $2 LIMIT $3`, recentIDs, digits, limit)
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
			return nil, true, fmt.Errorf("find calls by id: %w", err)
		}
	}
	calls, err := s.calls.ListCalls(ctx, ids)
	if err != nil {
		return nil, true, err
	}
	for _, id := range ids {
		if c, ok := calls[id]; ok {
			found = append(found, c)
		}
	}
	return found, true, nil
}

func isHex(text string) bool {
	if len(text)%2 == 1 {
		text += "0"
	}
	_, err := hex.DecodeString(text)
	return err == nil
}
