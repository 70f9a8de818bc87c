package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// RetryConfig configures [Retrying]. Zero fields have the defaults below.
type RetryConfig struct {
	// Attempts includes the first one. Default 6, which takes about a minute with the other defaults.
	Attempts int
	// Base is the pause after the first attempt. Each later pause is twice as long, up to Max. A quarter of each is random, so
	// that failed requests do not return together. Default 2 s and 30 s.
	Base, Max time.Duration
	// MaxRetryAfter bounds a pause that the provider asked for. Default 60 s.
	MaxRetryAfter time.Duration

	// Sleep waits, or returns the context's error. Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Chance returns a number in [0, 1). Default: random.
	Chance func() float64
	// Now, if set, ends a wait at once that would outlast the context.
	Now func() time.Time
	// OnRetry is called before each retry. May be nil.
	OnRetry func(request *Request)
	Logger  *slog.Logger // nil: nothing is logged
}

// Retrying repeats requests that failed and may succeed later. A [Delta] with Restart withdraws the text of a failed attempt.
// Retrying returns the last error, at once if it is not retryable or the context ends.
func Retrying(provider Provider, cfg RetryConfig) Provider {
	if cfg.Attempts <= 0 {
		cfg.Attempts = 6
	}
	cfg.Base = orDefault(cfg.Base, 2*time.Second)
	cfg.Max = orDefault(cfg.Max, 30*time.Second)
	cfg.MaxRetryAfter = orDefault(cfg.MaxRetryAfter, time.Minute)
	if cfg.Sleep == nil {
		cfg.Sleep = pause.For
	}
	if cfg.Chance == nil {
		cfg.Chance = rand.Float64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &retrying{provider, cfg}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

type retrying struct {
	Provider

	cfg RetryConfig
}

// Generate implements [Provider].
func (r *retrying) Generate(ctx context.Context, request *Request, sink func(Delta)) (*Response, error) {
	textSent := false
	forward := func(d Delta) {
		textSent = textSent || d.Text != ""
		if sink != nil {
			sink(d)
		}
	}
	for attempt := 1; ; attempt++ {
		response, err := r.Provider.Generate(ctx, request, forward)
		if err == nil {
			return response, nil
		}
		failed, again := errors.AsType[*Error](err)
		switch {
		case !again || !failed.Retryable || ctx.Err() != nil:
			return nil, err
		case attempt == r.cfg.Attempts:
			final := *failed
			final.Message = fmt.Sprintf("%s (%d attempts)", failed.Message, attempt)
			return nil, &final
		}
		wait := r.retryPause(attempt, failed)
		if deadline, ok := ctx.Deadline(); ok && r.cfg.Now != nil && r.cfg.Now().Add(wait).After(deadline) {
			return nil, err
		}
		r.cfg.Logger.WarnContext(ctx, "model request failed", "model", request.Model, "error", failed.Error(), "attempt", attempt, "again_in", wait.String())
		if textSent {
			textSent = false
			if sink != nil {
				sink(Delta{Restart: true})
			}
		}
		if r.cfg.Sleep(ctx, wait) != nil {
			return nil, err
		}
		if r.cfg.OnRetry != nil {
			r.cfg.OnRetry(request)
		}
	}
}

// retryPause returns the pause after an attempt.
func (r *retrying) retryPause(attempt int, failed *Error) time.Duration {
	d := r.cfg.Max
	if shift := attempt - 1; shift < 32 {
		d = min(d, r.cfg.Base<<shift)
	}
	const chance = 4
	d -= time.Duration(r.cfg.Chance() * float64(d/chance))
	return max(d, min(failed.RetryAfter, r.cfg.MaxRetryAfter))
}
