package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dashboard measures what the dashboard's pages weigh, what a long queue costs, and how far lists lag
// behind the queue when many are open.
func dashboard(ctx context.Context, b *bench) error {
	if err := longQueue(ctx, b); err != nil {
		return err
	}
	return lag(ctx, b)
}

// longQueue measures the pages while very many calls wait.
func longQueue(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	n := pick(b, 10_000, 500)
	const most = 1000 // at once; their clients leave, and the calls stay
	for first := 0; first < n; first += most {
		if _, err := s.parkOnce(ctx, first, min(most, n-first), 16); err != nil {
			return err
		}
	}
	d, err := s.sit(ctx, s.token)
	if err != nil {
		return err
	}
	defer d.leave()
	if err := s.weigh(ctx, d); err != nil {
		return err
	}
	if err := s.queueTimes(ctx, d, n); err != nil {
		return err
	}
	if err := s.idleCost(ctx, d, n); err != nil {
		return err
	}
	return s.inBrowser(ctx, n)
}

var (
	assetURL = regexp.MustCompile(`(?:src|href)="(/a/[^"]+\.(js|css))"`)
	imports  = regexp.MustCompile(`(?:from|import)\s*"(\./[^"]+\.js|/a/[^"]+\.js)"`)
	rowURL   = regexp.MustCompile(`href="(/calls/[0-9a-f-]{36})"`)
)

// weigh tells what pages and assets weigh on the wire. The queue is full.
func (s *stage) weigh(ctx context.Context, d *desk) error {
	queue, err := d.fetch(ctx, "/", false)
	if err != nil {
		return err
	}
	row := rowURL.FindSubmatch(queue.body)
	if row == nil {
		return fmt.Errorf("the queue has no rows:\n%s", queue.body)
	}
	scripts, styles, err := d.assets(ctx, queue.body)
	if err != nil {
		return err
	}
	s.report.add("dashboard", "scripts, all, compressed", "KB", float64(scripts.sent)/1000).atMost(25)
	s.report.add("dashboard", "styles, compressed", "KB", float64(styles.sent)/1000).atMost(8)
	s.report.add("dashboard", "styles", "KB", float64(styles.whole)/1000).atMost(25)
	s.report.add("dashboard", "queue page of 100 rows, compressed", "KB", float64(queue.weight)/1000).atMost(30)
	for _, page := range []struct{ name, path string }{
		{"call", string(row[1])},
		{"history", "/calls"},
		{"conversations", "/conversations"},
		{"audit", "/audit"},
		{"insights", "/insights"},
		{"skills", "/skills"},
		{"agents", "/agents"},
		{"settings", "/settings"},
	} {
		got, err := d.fetch(ctx, page.path, false)
		if err != nil {
			return err
		}
		s.report.add("dashboard", page.name+" page, compressed", "KB", float64(got.weight)/1000)
	}
	return nil
}

// bulk is how many bytes something has, as sent and in the clear.
type bulk struct{ sent, whole int }

// assets weighs what the page has the browser fetch, and what that imports.
func (d *desk) assets(ctx context.Context, page []byte) (scripts, styles bulk, err error) {
	var todo []string
	for _, found := range assetURL.FindAllSubmatch(page, -1) {
		todo = append(todo, string(found[1]))
	}
	seen := map[string]bool{}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		got, err := d.fetch(ctx, path, false)
		if err != nil {
			return scripts, styles, err
		}
		kind := &styles
		if strings.HasSuffix(path, ".js") {
			kind = &scripts
			for _, found := range imports.FindAllSubmatch(got.body, -1) {
				todo = append(todo, path[:strings.LastIndex(path, "/")+1]+strings.TrimPrefix(string(found[1]), "./"))
			}
		}
		kind.sent += got.weight
		kind.whole += len(got.body)
	}
	if scripts.sent == 0 || styles.sent == 0 {
		return scripts, styles, fmt.Errorf("the page has %d bytes of scripts and %d of styles", scripts.sent, styles.sent)
	}
	return scripts, styles, nil
}

func (s *stage) queueTimes(ctx context.Context, d *desk, n int) error {
	at := strconv.Itoa(n) + " pending: "
	for _, kind := range []struct {
		name string
		part bool
	}{{"queue page, first byte", false}, {"queue's list, first byte", true}} {
		var took []time.Duration
		for range pick(s.bench, 200, 20) {
			got, err := d.fetch(ctx, "/", kind.part)
			if err != nil {
				return err
			}
			took = append(took, got.firstByte)
		}
		slices.Sort(took)
		s.report.add("dashboard", at+kind.name+", p50", "ms", percentile(took, 0.50, time.Millisecond))
		s.report.add("dashboard", at+kind.name+", p99", "ms", percentile(took, 0.99, time.Millisecond)).below(100)
	}
	return nil
}

// idleCost is what one open dashboard takes while nothing happens.
func (s *stage) idleCost(ctx context.Context, d *desk, n int) error {
	watching, stop := context.WithCancel(ctx)
	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- d.watch(watching, func() { close(opened) }, func(string) {}) }()
	select {
	case <-opened:
	case err := <-ended:
		stop()
		return err
	}
	before, began := s.meter(ctx), time.Now()
	time.Sleep(pick(s.bench, 20*time.Second, 2*time.Second))
	serve, database := s.meter(ctx).since(before)
	took := float64(time.Since(began).Microseconds())
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if serve > 0 {
		s.report.add("dashboard", fmt.Sprintf("%d pending, one dashboard open, nothing changes: serve and PostgreSQL", n), "% of a core",
			100*(serve+database)/took)
	}
	return nil
}
