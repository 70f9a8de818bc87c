// Package pause owns waiting for a while.
package pause

import (
	"context"
	"time"
)

// For waits for d and returns nil, or returns the cause of ctx's end if that comes first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
