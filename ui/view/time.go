package view

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
)

type zoneKey struct{}

type nowKey struct{}

// WithZone returns a context in which pages show times in the reader's time zone.
func WithZone(ctx context.Context, zone *time.Location) context.Context {
	return context.WithValue(ctx, zoneKey{}, zone)
}

// Zone returns the time zone of the reader: UTC if it is not known.
func Zone(ctx context.Context) *time.Location {
	if zone, ok := ctx.Value(zoneKey{}).(*time.Location); ok {
		return zone
	}
	return time.UTC
}

// WithNow returns a context in which pages show times relative to now.
func WithNow(ctx context.Context, now time.Time) context.Context {
	return context.WithValue(ctx, nowKey{}, now)
}

// Now returns the time of a page. The zero time, without one, makes all times exact.
func Now(ctx context.Context) time.Time {
	now, _ := ctx.Value(nowKey{}).(time.Time)
	return now
}

// FormatTime writes a time to the minute in the reader's zone, which it names if that is UTC.
func FormatTime(ctx context.Context, t time.Time) text.Message {
	return inZone(ctx, t, text.FormatMinute())
}

// FormatExact writes a time to the second.
func FormatExact(ctx context.Context, t time.Time) text.Message {
	return inZone(ctx, t, text.FormatSecond())
}

// FormatHour writes a time of day to the second.
func FormatHour(ctx context.Context, t time.Time) text.Message {
	return inZone(ctx, t, text.FormatSecondOfDay())
}

func inZone(ctx context.Context, t time.Time, layout text.Message) text.Message {
	zone := Zone(ctx)
	written := text.Time(t.In(zone), layout)
	if zone != time.UTC {
		return written
	}
	return text.Join(" ", written, text.Literal("UTC"))
}

// formatClock says how long ago a time was, or writes it if it is to come or more than a week ago. The script does the same.
func formatClock(ctx context.Context, t time.Time) text.Message {
	const day = 24 * time.Hour
	switch ago := Now(ctx).Sub(t); {
	case ago < -time.Minute || ago >= 7*day:
		return FormatTime(ctx, t)
	case ago < time.Minute:
		return text.CountdownJustNow()
	case ago < time.Hour:
		return text.CountdownMinutesAgo(int(ago / time.Minute))
	case ago < day:
		return text.CountdownHoursAgo(int(ago / time.Hour))
	default:
		return text.CountdownDaysAgo(int(ago / day))
	}
}
