package retention

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// collector reads the progress for each request. It is the same in all processes.
type collector struct {
	service              *Service
	deleted, oldest, ran *prometheus.Desc
}

// collectTimeout bounds the read of the progress.
const collectTimeout = 5 * time.Second

// Collectors returns the metrics of deletions.
func (s *Service) Collectors() []prometheus.Collector {
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, []string{"kind"}, nil) }
	return []prometheus.Collector{collector{
		service: s,
		deleted: describe("holdpoint_retention_deleted_total", "Rows deleted by age, of all processes, by kind."),
		oldest:  describe("holdpoint_retention_oldest_seconds", "Age of the oldest row that was left at the end of the last run, by kind."),
		ran:     describe("holdpoint_retention_last_run_timestamp_seconds", "When the last run that deleted all old rows of a kind ended."),
	}}
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.deleted
	ch <- c.oldest
	ch <- c.ran
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	rows, _ := c.service.Pool.Query(ctx, `SELECT kind, deleted::float8, extract(epoch FROM holdpoint_now() - oldest)::float8, extract(epoch FROM ran_at)::float8 FROM retention_progress WHERE kind <> $1`, runLock)
	var kind string
	var deleted float64
	var oldest, ran *float64
	_, err := pgx.ForEachRow(rows, []any{&kind, &deleted, &oldest, &ran}, func() error {
		ch <- prometheus.MustNewConstMetric(c.deleted, prometheus.CounterValue, deleted, kind)
		if oldest != nil {
			ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, *oldest, kind)
		}
		if ran != nil {
			ch <- prometheus.MustNewConstMetric(c.ran, prometheus.GaugeValue, *ran, kind)
		}
		return nil
	})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.deleted, err)
	}
}
