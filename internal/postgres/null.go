package postgres

import "github.com/google/uuid"

// OrNull returns the value of a nullable column: uuid.Nil is NULL.
func OrNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// OrNil is the inverse of [OrNull]: NULL is uuid.Nil.
func OrNil(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}
