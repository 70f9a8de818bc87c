package figures

import (
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// Window is the range of time of figures, divided into buckets.
type Window struct {
	From, To time.Time // [From, To), whole hours in the zone
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
	Daily  BucketLength = "day"
	Weekly BucketLength = "week" // from Monday
)

const (
	day = 24 * time.Hour

	defaultWindow = 7 * day
	longestHourly = 3 * day
	longestDaily  = 92 * day
	longestWindow = 400 * day
)

// earliest returns the first time that a window may start at.
func earliest() time.Time { return time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Zone returns the name of the window's time zone.
func (w *Window) Zone() string { return w.From.Location().String() }

// next returns the start of the bucket after the one that t is in, in the zone of t.
func (b BucketLength) next(t time.Time) time.Time {
	year, month, date := t.Date()
	switch b {
	case Hourly:
		return beginHour(t).Add(time.Hour)
	case Weekly:
		return time.Date(year, month, date+7-int(t.Weekday()+6)%7, 0, 0, 0, 0, t.Location())
	default:
		return time.Date(year, month, date+1, 0, 0, 0, 0, t.Location())
	}
}

// listStarts returns the starts of the buckets. The first one is the start of the window.
func (w *Window) listStarts() []time.Time {
	var starts []time.Time
	for start := w.From; start.Before(w.To); start = w.Bucket.next(start) {
		starts = append(starts, start)
	}
	return starts
}

// newRangeError returns the error of one end of a range.
func newRangeError(field, expected string) error {
	return fault.Invalid(field, "must be "+expected)
}

// NewWindow widens a range to whole hours and chooses its buckets, both in a zone. A zero from is seven days before to, and a zero to is
// now. If the range is not valid, the error is a *[fault.InvalidError].
func NewWindow(from, to, now time.Time, zone *time.Location) (Window, error) {
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-defaultWindow)
	}
	// If an hour began before the clocks changed by less, it begins again in the middle: the range begins with the hour before.
	w := Window{From: beginHour(beginHour(from.In(zone))), To: roundUpHour(to.In(zone))}
	length := w.To.Sub(w.From)
	switch {
	case !from.Before(to):
		return Window{}, newRangeError("to", "a time after "+from.UTC().Format(time.RFC3339))
	case length > longestWindow:
		return Window{}, newRangeError("from", fmt.Sprintf("at most %d days before the end of the range", longestWindow/day))
	case from.Before(earliest()):
		return Window{}, newRangeError("from", "a time after "+earliest().Format(time.DateOnly))
	case from.After(now):
		return Window{}, newRangeError("from", "a time that is not yet to come")
	}
	w.BeforeFrom, w.BeforeTo = w.From.Add(-length), w.To.Add(-length)
	if passed := roundUpHour(now.In(zone)).Add(-length); passed.Before(w.BeforeTo) {
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

// beginHour returns the start of the hour that t is in, in the zone of t.
func beginHour(t time.Time) time.Time {
	_, seconds := t.Zone()
	offset := time.Duration(seconds) * time.Second
	return t.Add(offset).Truncate(time.Hour).Add(-offset)
}

func roundUpHour(t time.Time) time.Time {
	hour := beginHour(t)
	if hour.Before(t) {
		hour = hour.Add(time.Hour)
	}
	return hour
}
