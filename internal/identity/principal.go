package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// PrincipalName is a person as other servers are told of them: the issuer, #, and the subject, with each byte percent-encoded
// that is not visible ASCII, and in the subject # and % too. No two people have the same one, it never changes, and it fits into a
// header. Empty for uuid.Nil. ErrNotFound.
func PrincipalName(ctx context.Context, db postgres.Querier, person uuid.UUID) (string, error) {
	if person == uuid.Nil {
		return "", nil
	}
	rows, err := db.Query(ctx, `SELECT issuer, subject FROM people WHERE id = $1`, person)
	if err != nil {
		return "", fmt.Errorf("name person %s: %w", person, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct{ Issuer, Subject string }])
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("name person %s: %w", person, err)
	}
	return visible(found.Issuer, "#") + "#" + visible(found.Subject, "#%"), nil
}

// visible percent-encodes what is not visible ASCII, and the characters of also.
func visible(text, also string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c > ' ' && c <= '~' && strings.IndexByte(also, c) < 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
