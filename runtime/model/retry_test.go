package model_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// failing returns errors from a list, and then an answer.
type failing struct {
	errors []error
	asked  int
}

func (f *failing) Generate(_ context.Context, _ *model.Request, sink func(model.Delta)) (*model.Response, error) {
	f.asked++
	if sink != nil {
		sink(model.Delta{Text: "piece"})
	}
	if f.asked <= len(f.errors) {
		return nil, f.errors[f.asked-1]
	}
	return &model.Response{Parts: []model.Part{model.TextPart("piece")}}, nil
}

func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	again := &model.Error{Retryable: true, Message: "busy"}
	asked := &model.Error{Retryable: true, RetryAfter: 50 * time.Second, Message: "busy"}
	for what, c := range map[string]struct {
		errors   []error
		cfg      model.RetryConfig
		chance   float64
		slept    []int // in seconds
		restarts int
		fails    bool
	}{
		"no failure":        {nil, model.RetryConfig{}, 0, nil, 0, false},
		"one":               {[]error{again}, model.RetryConfig{}, 0, []int{2}, 1, false},
		"chance":            {[]error{again, again, again}, model.RetryConfig{Base: 8 * time.Second}, 0.5, []int{7, 14, 26}, 3, false},
		"asked for":         {[]error{asked, again}, model.RetryConfig{}, 0, []int{50, 4}, 2, false},
		"asked for, capped": {[]error{asked}, model.RetryConfig{MaxRetryAfter: 20 * time.Second}, 0, []int{20}, 1, false},
		"too often":         {[]error{again, again, again}, model.RetryConfig{Attempts: 3}, 0, []int{2, 4}, 2, true},
		"not mended":        {[]error{again, &model.Error{Message: "no"}}, model.RetryConfig{}, 0, []int{2}, 1, true},
		"another error":     {[]error{errors.New("odd")}, model.RetryConfig{}, 0, nil, 0, true},
	} {
		var slept []time.Duration
		c.cfg.Chance = func() float64 { return c.chance }
		if what == "chance" {
			c.cfg.Max = 30 * time.Second
		}
		c.cfg.Sleep = func(_ context.Context, d time.Duration) error {
			slept = append(slept, d.Round(time.Second))
			return nil
		}
		h := &listener{}
		p := &failing{errors: c.errors}
		_, err := model.Retrying(p, c.cfg).Generate(t.Context(), newRequest("Go."), h.sink)
		if !slices.Equal(slept, toSeconds(c.slept...)) || h.restarts != c.restarts || (err != nil) != c.fails || h.text.String() != "piece" {
			t.Errorf("%s: slept %v, %d restarts, %q, %v", what, slept, h.restarts, h.text.String(), err)
		}
		p.asked = 0
		if _, err := model.Retrying(p, c.cfg).Generate(t.Context(), newRequest("Go."), nil); (err != nil) != c.fails {
			t.Errorf("%s, without a sink: %v", what, err)
		}
	}
	if again.Message != "busy" {
		t.Error("the provider's error was changed")
	}
}

// A wait that would outlast the context does not begin, and the end of the context ends a wait.
func TestRetryEnds(t *testing.T) {
	t.Parallel()
	again := &model.Error{Retryable: true, Message: "busy"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	deadline, _ := ctx.Deadline()
	p := &failing{errors: []error{again}}
	_, err := model.Retrying(p, model.RetryConfig{Now: func() time.Time { return deadline.Add(-time.Second) }}).Generate(ctx, newRequest("Go."), nil)
	if p.asked != 1 || !errors.Is(err, again) {
		t.Errorf("asked %d times, %v", p.asked, err)
	}
	p = &failing{errors: []error{again, again}}
	ending, end := context.WithCancel(t.Context())
	waits := model.Retrying(p, model.RetryConfig{Base: time.Hour, Max: time.Hour})
	_, err = waits.Generate(ending, newRequest("Go."), func(d model.Delta) {
		if d.Restart {
			end() // with the real timer, an hour before its time
		}
	})
	if p.asked != 1 || !errors.Is(err, again) {
		t.Errorf("asked %d times, %v", p.asked, err)
	}
	p = &failing{errors: []error{again}}
	if _, err = model.Retrying(p, model.RetryConfig{Base: time.Microsecond}).Generate(t.Context(), newRequest("Go."), nil); err != nil || p.asked != 2 {
		t.Errorf("asked %d times, %v", p.asked, err)
	}
}
