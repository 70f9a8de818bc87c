package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"
)

// newest returns the id of the newest call there was before ours, so that ours
// can be told from it if the connection breaks too early.
func (w *waiting) newest(ctx context.Context) (string, bool) {
	calls, err := w.recent(ctx, "1")
	if err != nil {
		return "", false
	}
	if len(calls) == 0 {
		return "", true
	}
	return calls[0].ID, true
}

// find looks for our call among those made since the mark. No id: the server does not have it.
func (w *waiting) find(ctx context.Context) (string, error) {
	calls, err := w.recent(ctx, "200")
	for ; err != nil; calls, err = w.recent(ctx, "200") {
		var refused *Problem
		if errors.As(err, &refused) || !w.tryAgain(ctx, &LostError{Err: err}) {
			return "", err
		}
	}
	wanted := jsontext.Value(bytes.Clone(w.call.Arguments))
	if err := wanted.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return "", nil //nolint:nilerr // the door does not let such arguments in
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

type recentCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func (w *waiting) recent(ctx context.Context, limit string) ([]recentCall, error) {
	text, err := w.Get(ctx, "calls", url.Values{"agent": {w.call.Agent}, "limit": {limit}})
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []recentCall `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("understand list of calls: %w", err)
	}
	return list.Items, nil
}
