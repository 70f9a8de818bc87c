package postgres

import "github.com/google/uuid"

// OrNull is the column's value of an id that may be none: uuid.Nil is NULL.
func OrNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
