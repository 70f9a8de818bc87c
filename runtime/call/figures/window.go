package figures

import (
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// Window is the range of time of figures, divided into buckets.
type Window struct {
	From, To time.Time // [From, To), whole hours
	// The comparison range is of the same length and ends at From. If To is in the future, it has only the part that corresponds to
	// the time until now.
	BeforeFrom, BeforeTo time.Time
	Bucket               BucketLength
}

// BucketLength is the length of a window's buckets. It follows from the window's length.
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

// bucketOrigin returns the start of the first bucket: a Monday.
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

// newRangeError returns the error of one end of a range.
func newRangeError(field, expected string) error {
	return fault.Invalid(field, "expected "+expected)
}

// NewWindow widens a range to whole hours and chooses its buckets. A zero from is seven days before to, and a zero to is now. If the
// range is not valid, the error is a *[fault.InvalidError].
func NewWindow(from, to, now time.Time) (Window, error) {
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-defaultWindow)
	}
	w := Window{From: from.UTC().Truncate(time.Hour), To: roundUpHour(to.UTC())}
	length := w.To.Sub(w.From)
	switch {
	case !from.Before(to):
		return Window{}, newRangeError("to", "a time after "+from.UTC().Format(time.RFC3339))
	case length > longestWindow:
		return Window{}, newRangeError("from", fmt.Sprintf("at most %d days before the end of the range", longestWindow/day))
	case from.Before(bucketOrigin()):
		return Window{}, newRangeError("from", "a time after "+bucketOrigin().Format(time.DateOnly))
	case from.After(now):
		return Window{}, newRangeError("from", "a time that is not yet to come")
	}
	w.BeforeFrom, w.BeforeTo = w.From.Add(-length), w.To.Add(-length)
	if passed := roundUpHour(now.UTC()).Add(-length); passed.Before(w.BeforeTo) {
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

func roundUpHour(t time.Time) time.Time {
	hour := t.Truncate(time.Hour)
	if hour.Before(t) {
		hour = hour.Add(time.Hour)
	}
	return hour
}
