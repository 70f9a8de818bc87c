package call

import (
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/internal/query"
)

// Window is the stretch of time that insights are about, in buckets.
type Window struct {
	From, To time.Time // [From, To), whole hours
	// Before is as long before as To, or now if that is earlier, is after From.
	BeforeFrom, BeforeTo time.Time
	Bucket               BucketLength
}

// BucketLength is how long the buckets of a window are; it goes by the window's length.
type BucketLength string

// The lengths of buckets.
const (
	Hourly BucketLength = "hour"
	Daily  BucketLength = "day"  // UTC
	Weekly BucketLength = "week" // from Monday, UTC
)

const (
	day = 24 * time.Hour

	defaultWindow = 7 * day
	longestHourly = 3 * day
	longestDaily  = 92 * day
	longestWindow = 400 * day
)

// bucketOrigin is where buckets are counted from: a Monday.
func bucketOrigin() time.Time { return time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC) }

func (b BucketLength) duration() time.Duration {
	switch b {
	case Hourly:
		return time.Hour
	case Weekly:
		return 7 * day
	default:
		return day
	}
}

// wrong says what was expected of one end of a range.
func wrong(field, expected string) error {
	return &query.InvalidError{Fields: []query.Problem{{Field: field, Expected: "expected " + expected}}}
}

// NewWindow makes whole hours and buckets of a range. Zero times are seven days before to, and now. A range that
// cannot be is a *[query.InvalidError].
func NewWindow(from, to, now time.Time) (Window, error) {
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-defaultWindow)
	}
	w := Window{From: from.UTC().Truncate(time.Hour), To: roundUp(to.UTC())}
	length := w.To.Sub(w.From)
	switch {
	case !from.Before(to):
		return Window{}, wrong("to", "a time after "+from.UTC().Format(time.RFC3339))
	case length > longestWindow:
		return Window{}, wrong("from", fmt.Sprintf("at most %d days before the end of the range", longestWindow/day))
	case from.Before(bucketOrigin()):
		return Window{}, wrong("from", "a time after "+bucketOrigin().Format(time.DateOnly))
	case from.After(now):
		return Window{}, wrong("from", "a time that is not yet to come")
	}
	w.BeforeFrom, w.BeforeTo = w.From.Add(-length), w.To.Add(-length)
	if passed := roundUp(now.UTC()).Add(-length); passed.Before(w.BeforeTo) {
		w.BeforeTo = passed
	}
	switch {
	case length <= longestHourly:
		w.Bucket = Hourly
	case length <= longestDaily:
		w.Bucket = Daily
	default:
		w.Bucket = Weekly
	}
	return w, nil
}

func roundUp(t time.Time) time.Time {
	hour := t.Truncate(time.Hour)
	if hour.Before(t) {
		hour = hour.Add(time.Hour)
	}
	return hour
}

// span is one bucket: where it is counted from, and what of it is within the window.
type span struct{ start, from, to time.Time }

func (w *Window) spans() []span {
	length := w.Bucket.duration()
	start := bucketOrigin().Add(w.From.Sub(bucketOrigin()).Truncate(length))
	var spans []span
	for ; start.Before(w.To); start = start.Add(length) {
		s := span{start: start, from: start, to: start.Add(length)}
		if s.from.Before(w.From) {
			s.from = w.From
		}
		if s.to.After(w.To) {
			s.to = w.To
		}
		spans = append(spans, s)
	}
	return spans
}
