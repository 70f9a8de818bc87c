package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// harness stands in for the test that package browsertest expects.
type harness struct {
	ctx     context.Context //nolint:containedctx // as testing.TB has it
	failure error
	cleanup []func()
}

func (*harness) Helper()                    {}
func (*harness) Logf(string, ...any)        {}
func (h *harness) Failed() bool             { return h.failure != nil }
func (h *harness) Cleanup(f func())         { h.cleanup = append(h.cleanup, f) }
func (h *harness) Context() context.Context { return h.ctx }
func (*harness) Name() string               { return "bench" }

// Fatalf ends the goroutine, as a test's does.
func (h *harness) Fatalf(format string, args ...any) {
	h.failure = fmt.Errorf(format, args...)
	runtime.Goexit()
}

// withBrowser runs do with a page of a new browser.
func withBrowser(ctx context.Context, do func(p *browsertest.Page) error) error {
	h := &harness{ctx: ctx}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			for _, f := range slices.Backward(h.cleanup) {
				f()
			}
		}()
		failed = do(browsertest.New(h, browsertest.Options{}))
	}()
	<-ended
	return errors.Join(h.failure, failed)
}

// watchPage measures in the page: how long a renewal of the list takes, and the times from a key to the frame with the selected row and to
// the frame with the call. A time begins when the browser gets the key, and ends when the page has painted the frame. window.renewed and
// window.shown are promises of the numbers of renewals and calls.
const watchPage = `(() => {
	const list = () => {
		const values = [], waits = [];
		const add = (value) => {
			values.push(value);
			for (const wait of waits.splice(0)) wait();
		};
		const reach = async (n) => {
			while (values.length < n) await new Promise((resolve) => waits.push(resolve));
			return values.length;
		};
		return { values, add, reach };
	};
	const renewals = list(), selections = list(), calls = list();
	window.measured = { renewals: renewals.values, selections: selections.values, calls: calls.values };
	window.renewed = renewals.reach;
	window.shown = calls.reach;
	// The task after a frame begins when the frame was painted.
	const onPaint = (then) => requestAnimationFrame(() => {
		const { port1, port2 } = new MessageChannel();
		port1.onmessage = then;
		port2.postMessage(0);
	});
	let began;
	document.addEventListener("htmx:before:swap", (event) => {
		if (event.detail.tasks.some((task) => task.target?.id === "queue")) began = performance.now();
	});
	document.addEventListener("htmx:after:swap", () => {
		if (began !== undefined) renewals.add(performance.now() - began);
		began = undefined;
	});
	let pressed, before;
	const call = () => document.querySelector("#call[data-call]")?.dataset.call;
	addEventListener("keydown", (event) => {
		const at = pressed = event.timeStamp;
		before = call();
		onPaint(() => selections.add(performance.now() - at));
	}, true);
	new MutationObserver(() => {
		if (pressed === undefined || !call() || call() === before) return;
		const at = pressed;
		pressed = undefined;
		onPaint(() => calls.add(performance.now() - at));
	}).observe(document, { subtree: true, childList: true, attributes: true });
	return true;
})()`

// measureInBrowser measures a long queue in a browser: the time of a renewal of the list, and from a key to the next call.
func (s *stage) measureInBrowser(ctx context.Context, n int) error {
	d, err := s.signIn(ctx, s.token)
	if err != nil {
		return err
	}
	defer d.close()
	return withBrowser(ctx, func(p *browsertest.Page) error {
		p.SetCookies("http://"+s.addr, d.cookies)
		p.Go("http://" + s.addr + "/")
		p.WaitFor("the list is live", `document.documentElement.hasAttribute("data-ready")`)
		browsertest.Eval[bool](p, watchPage)
		for i := range choose(s.bench, 30, 5) {
			if err := s.rejectFirst(ctx); err != nil {
				return err
			}
			browsertest.EvalAsync[int](p, fmt.Sprintf("window.renewed(%d)", i+1))
		}
		for i := range choose(s.bench, 80, 5) { // of the 100 rows
			p.Press("j")
			browsertest.EvalAsync[int](p, fmt.Sprintf("window.shown(%d)", i+1))
		}
		at := strconv.Itoa(n) + " pending: "
		s.reportMillis(at+"renewal of the list in the page", browsertest.Eval[[]float64](p, "window.measured.renewals"), 100)
		s.reportMillis(at+"key j to the selected row on the screen", browsertest.Eval[[]float64](p, "window.measured.selections"), 60)
		s.reportMillis(at+"key j to the call on the screen", browsertest.Eval[[]float64](p, "window.measured.calls"), 60)
		return nil
	})
}

// reportMillis reports the distribution of times. The aim is for the p95.
func (s *stage) reportMillis(name string, values []float64, aim float64) {
	took := make([]time.Duration, len(values))
	for i, v := range values {
		took[i] = time.Duration(v * float64(time.Millisecond))
	}
	slices.Sort(took)
	s.report.addFigure("dashboard", name+", p50", "ms", percentile(took, 0.50, time.Millisecond))
	s.report.addFigure("dashboard", name+", p95", "ms", percentile(took, 0.95, time.Millisecond)).aimBelow(aim)
	s.report.addFigure("dashboard", name+", most", "ms", percentile(took, 1, time.Millisecond))
}

// rejectFirst rejects the most urgent call, so that every row moves.
func (s *stage) rejectFirst(ctx context.Context) error {
	var id string
	err := s.pool.QueryRow(ctx, `SELECT call_id::text FROM approvals WHERE status = 'pending' ORDER BY deadline, call_id LIMIT 1`).Scan(&id)
	if err != nil {
		return fmt.Errorf("find the most urgent call: %w", err)
	}
	targets, err := s.readApprovals(ctx, []heldCall{{id: id}}, 0)
	if err != nil {
		return err
	}
	return s.rejectCall(ctx, targets[0])
}
