package call

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what this process saw of calls. Their labels are bounded by what operators set up: nothing that a client or a
// server says is among them.
type metrics struct {
	submitted *prometheus.CounterVec   // skill, status: parked, executing, …, or attached
	ended     *prometheus.CounterVec   // skill, status, code
	duration  *prometheus.HistogramVec // skill, gated
	waits     *prometheus.HistogramVec // skill, outcome
	flights   prometheus.GaugeFunc
}

// longBuckets are those of what may take milliseconds or days, in seconds.
func longBuckets() []float64 {
	return []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
}

func newMetrics(f *flights) metrics {
	return metrics{
		submitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_calls_submitted_total",
			Help: "Calls that this process took in, by what became of them at once: executing (auto-approved), parked, needs_connection, denied, invalid, or attached to an earlier one.",
		}, []string{"skill", "status"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_calls_total",
			Help: "Calls that reached their end in this process, by outcome and the code that says why.",
		}, []string{"skill", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdpoint_call_duration_seconds", Help: "From the submission of a call to its end, waiting included.", Buckets: longBuckets(),
		}, []string{"skill", "gated"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdpoint_decision_wait_seconds", Help: "How long parked calls waited for their decision, or their expiry.", Buckets: longBuckets(),
		}, []string{"skill", "outcome"}),
		flights: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdpoint_calls_in_flight", Help: "Calls that this process is sending.",
		}, func() float64 { return float64(f.count()) }),
	}
}

// Collectors are the metrics of calls.
func (s *Service) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.submitted, m.ended, m.duration, m.waits, m.flights}
}

func (m *metrics) took(sub *Submission, t *Ticket) {
	status := string(t.Status)
	if t.Attached {
		status = "attached"
	}
	m.submitted.WithLabelValues(sub.Entry.Skill, status).Inc()
}

func gatedLabel(gated bool) string {
	if gated {
		return "true"
	}
	return "false"
}
