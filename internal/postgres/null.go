package postgres

import (
	"encoding/json"

	"github.com/google/uuid"
)

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

// JSONOrNull returns a list as JSON, for a column in which an empty list is NULL.
func JSONOrNull[T any](list []T) *string {
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil { // the lists have texts and numbers only
		panic(err)
	}
	return new(string(text))
}
