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

// RetryConfig says how often and when requests that failed are made again. Zero fields have the defaults named.
type RetryConfig struct {
	// Attempts at one request, the first included. Default 6, which with the other defaults take about a minute.
	Attempts int
	// Base is what is waited after the first attempt; each later wait is twice as long, up to Max. A quarter of each is left
	// to chance, so that many that failed together do not come back together. Default 2 s and 30 s.
	Base, Max time.Duration
	// MaxRetryAfter bounds how long is waited because the provider asked for it. Default 60 s.
	MaxRetryAfter time.Duration

	// Sleep waits, or returns the context's error. Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Chance is from 0 up to 1. Default: random.
	Chance func() float64
	// Now is asked whether a context ends before a wait would. Nil: waits end with the context.
	Now func() time.Time
	// Again is told of each request that is about to be made again. Nil: nobody is.
	Again  func(request *Request)
	Logger *slog.Logger // nil: nothing is logged
}

// Retrying makes requests again that failed and may succeed later. Text of an answer that broke off is withdrawn by a
// [Delta] with Restart. It gives up with the last error, at once when that cannot be mended or the context ends.
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
	told := false
	hear := func(d Delta) {
		told = told || d.Text != ""
		if sink != nil {
			sink(d)
		}
	}
	for attempt := 1; ; attempt++ {
		response, err := r.Provider.Generate(ctx, request, hear)
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
		wait := r.wait(attempt, failed)
		if r.tooLate(ctx, wait) {
			return nil, err
		}
		r.cfg.Logger.WarnContext(ctx, "model request failed", "model", request.Model, "error", failed.Error(), "attempt", attempt, "again_in", wait.String())
		if told {
			told = false
			sinkRestart(sink)
		}
		if r.cfg.Sleep(ctx, wait) != nil {
			return nil, err
		}
		if r.cfg.Again != nil {
			r.cfg.Again(request)
		}
	}
}

func sinkRestart(sink func(Delta)) {
	if sink != nil {
		sink(Delta{Restart: true})
	}
}

// wait is how long to wait after an attempt.
func (r *retrying) wait(attempt int, failed *Error) time.Duration {
	d := r.cfg.Max
	if shift := attempt - 1; shift < 32 {
		d = min(d, r.cfg.Base<<shift)
	}
	const chance = 4
	d -= time.Duration(r.cfg.Chance() * float64(d/chance))
	return max(d, min(failed.RetryAfter, r.cfg.MaxRetryAfter))
}

func (r *retrying) tooLate(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && r.cfg.Now != nil && r.cfg.Now().Add(wait).After(deadline)
}
