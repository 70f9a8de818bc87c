package client

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// newestCall returns the id of the newest call before ours, to find ours if the connection breaks too early.
func (w *waiting) newestCall(ctx context.Context) (string, bool) {
	calls, err := w.recentCalls(ctx, 1)
	if err != nil {
		return "", false
	}
	if len(calls) == 0 {
		return "", true
	}
	return calls[0].ID, true
}

// findCall looks for our call among those made since the mark. It returns "" if the server does not have it.
func (w *waiting) findCall(ctx context.Context) (string, error) {
	calls, err := w.recentCalls(ctx, 200)
	for ; err != nil; calls, err = w.recentCalls(ctx, 200) {
		var refused *Problem
		if errors.As(err, &refused) || !w.tryAgain(ctx, &LostError{Err: err}) {
			return "", err
		}
	}
	wanted := jsontext.Value(bytes.Clone(w.call.Arguments))
	if err := wanted.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return "", nil //nolint:nilerr // the server refuses such arguments
	}
	for _, call := range calls {
		if call.ID == w.mark {
			break
		}
		if call.Name == w.call.Tool && bytes.Equal(call.Arguments, wanted) {
			return call.ID, nil
		}
	}
	return "", nil
}

func (w *waiting) recentCalls(ctx context.Context, limit int64) ([]Call, error) {
	list, err := Value(w.ListCalls(ctx, ListCallsQuery{Agent: w.call.Agent, Limit: &limit}))
	return list.Items, err
}
