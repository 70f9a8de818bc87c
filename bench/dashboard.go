package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// measureLongQueue measures the pages while thousands of calls wait.
func measureLongQueue(ctx context.Context, s *stage) error {
	n := choose(s.bench, 10_000, 500)
	const most = 1000 // at once; their clients leave, and the calls stay
	for first := 0; first < n; first += most {
		if _, err := s.parkOnce(ctx, first, min(most, n-first), 16); err != nil {
			return err
		}
	}
	d, err := s.signIn(ctx, s.token)
	if err != nil {
		return err
	}
	defer d.close()
	if err := s.reportWeights(ctx, d); err != nil {
		return err
	}
	if err := s.reportQueueTimes(ctx, d, n); err != nil {
		return err
	}
	if err := s.reportIdleCost(ctx, d, n); err != nil {
		return err
	}
	if err := s.reportEvidenceTimes(ctx, d, n); err != nil {
		return err
	}
	return s.measureInBrowser(ctx, n)
}

var (
	assetURL = regexp.MustCompile(`(?:src|href)="(/a/[^"]+\.(js|css))"`)
	imports  = regexp.MustCompile(`(?:from|import)\s*"(\./[^"]+\.js|/a/[^"]+\.js)"`)
	rowURL   = regexp.MustCompile(`href="(/calls/[0-9a-f-]{36})"`)
)

// reportWeights reports the sizes of pages and assets on the wire. The queue is full.
func (s *stage) reportWeights(ctx context.Context, d *dashboardClient) error {
	queue, err := d.fetchPage(ctx, "/", false)
	if err != nil {
		return err
	}
	row := rowURL.FindSubmatch(queue.body)
	if row == nil {
		return fmt.Errorf("the queue has no rows:\n%s", queue.body)
	}
	scripts, styles, err := d.weighAssets(ctx, queue.body)
	if err != nil {
		return err
	}
	// The aims of scripts and styles are the budgets that the tests of ui/static hold.
	s.reportWeight("scripts, all, compressed", scripts.sent).aimAtMost(35)
	s.reportWeight("styles, compressed", styles.sent).aimAtMost(8)
	s.reportWeight("styles", styles.whole).aimAtMost(25)
	s.reportWeight("queue page of 100 rows, compressed", queue.weight).aimAtMost(30)
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
		got, err := d.fetchPage(ctx, page.path, false)
		if err != nil {
			return err
		}
		s.reportWeight(page.name+" page, compressed", got.weight)
	}
	return nil
}

func (s *stage) reportWeight(name string, bytes int) *figure {
	return s.report.addFigure("dashboard", name, "KiB", float64(bytes)/1024)
}

// byteSizes counts bytes as they are sent and as they are uncompressed.
type byteSizes struct{ sent, whole int }

// weighAssets adds up the sizes of the scripts and styles of a page, including imported scripts.
func (d *dashboardClient) weighAssets(ctx context.Context, page []byte) (scripts, styles byteSizes, err error) {
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
		got, err := d.fetchPage(ctx, path, false)
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

func (s *stage) reportQueueTimes(ctx context.Context, d *dashboardClient, n int) error {
	at := strconv.Itoa(n) + " pending: "
	for _, kind := range []struct {
		name string
		part bool
	}{{"queue page, first byte", false}, {"queue's list, first byte", true}} {
		var took []time.Duration
		for range choose(s.bench, 200, 20) {
			got, err := d.fetchPage(ctx, "/", kind.part)
			if err != nil {
				return err
			}
			took = append(took, got.firstByte)
		}
		_, most := s.report.addTimes("dashboard", at+kind.name+", ", took)
		most.aimBelow(100)
	}
	return nil
}

// reportIdleCost measures the processor time of one open dashboard while nothing happens.
func (s *stage) reportIdleCost(ctx context.Context, d *dashboardClient, n int) error {
	watching, stop := context.WithCancel(ctx)
	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- d.watchEvents(watching, func() { close(opened) }, func(string) {}) }()
	select {
	case <-opened:
	case err := <-ended:
		stop()
		return err
	}
	before, began := s.readMeter(ctx), time.Now()
	time.Sleep(choose(s.bench, 20*time.Second, 2*time.Second))
	serve, database := s.readMeter(ctx).usedSince(before)
	took := float64(time.Since(began).Microseconds())
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if serve > 0 {
		s.report.addFigure("dashboard", fmt.Sprintf("%d pending, one dashboard open, nothing changes: serve and PostgreSQL", n), "% of a core",
			100*(serve+database)/took)
	}
	return nil
}
