package figures_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	check(t, err)
	return parsed
}

func TestWindow(t *testing.T) {
	t.Parallel()
	now := parseTime(t, "2026-03-04T10:20:30Z") // a Wednesday
	for _, test := range []struct {
		name, from, to string
		want           [4]string // the window and the comparison range
		bucket         figures.BucketLength
	}{
		{
			"nothing said", "", "",
			[4]string{"2026-02-25T10:00:00Z", "2026-03-04T11:00:00Z", "2026-02-18T09:00:00Z", "2026-02-25T10:00:00Z"},
			figures.Daily,
		},
		{
			"other zone", "2026-03-02T01:30:00+02:00", "2026-03-03T00:00:00+01:00",
			[4]string{"2026-03-01T23:00:00Z", "2026-03-02T23:00:00Z", "2026-02-28T23:00:00Z", "2026-03-01T23:00:00Z"},
			figures.Hourly,
		},
		{
			// Today is not over, so it is compared with the same part of the day a week ago.
			"week to the end of today", "2026-02-26T00:00:00Z", "2026-03-05T00:00:00Z",
			[4]string{"2026-02-26T00:00:00Z", "2026-03-05T00:00:00Z", "2026-02-19T00:00:00Z", "2026-02-25T11:00:00Z"},
			figures.Daily,
		},
		{
			"long", "2025-11-01T00:00:00Z", "2026-03-01T00:00:00Z",
			[4]string{"2025-11-01T00:00:00Z", "2026-03-01T00:00:00Z", "2025-07-04T00:00:00Z", "2025-11-01T00:00:00Z"},
			figures.Weekly,
		},
	} {
		var from, to time.Time
		if test.from != "" {
			from, to = parseTime(t, test.from), parseTime(t, test.to)
		}
		w, err := figures.NewWindow(from, to, now, time.UTC)
		check(t, err)
		for i, got := range []time.Time{w.From, w.To, w.BeforeFrom, w.BeforeTo} {
			if got.Format(time.RFC3339) != test.want[i] {
				t.Errorf("%s: time %d is %s, want %s", test.name, i, got.Format(time.RFC3339), test.want[i])
			}
		}
		if w.Bucket != test.bucket {
			t.Errorf("%s: bucket %s", test.name, w.Bucket)
		}
	}
}

func TestWindowRefuses(t *testing.T) {
	t.Parallel()
	now := parseTime(t, "2026-03-04T10:20:30Z")
	for _, test := range []struct{ from, to, field string }{
		{"2026-03-04T10:00:00Z", "2026-03-04T10:00:00Z", "to"},
		{"2026-03-04T10:00:00Z", "2026-03-01T10:00:00Z", "to"},
		{"2026-03-05T10:00:00Z", "2026-03-06T10:00:00Z", "from"},
		{"2024-03-05T10:00:00Z", "2026-03-06T10:00:00Z", "from"},
		{"1500-03-05T10:00:00Z", "1500-03-06T10:00:00Z", "from"},
		{"0000-01-01T00:00:00Z", "9999-12-31T00:00:00Z", "from"},
	} {
		_, err := figures.NewWindow(parseTime(t, test.from), parseTime(t, test.to), now, time.UTC)
		if wrong, ok := errors.AsType[*fault.InvalidError](err); !ok || wrong.Fields[0].Name != test.field {
			t.Errorf("from %s to %s: %v", test.from, test.to, err)
		}
	}
}

// In zones whose offset is no whole hour, a window has whole hours and days of the zone.
func TestWindowInZone(t *testing.T) {
	t.Parallel()
	now := parseTime(t, "2026-06-01T00:00:00Z")
	for _, test := range []struct {
		zone, from, to, want string
	}{
		{"Asia/Kolkata", "2026-03-01T18:30:00Z", "2026-03-08T18:30:00Z", "2026-03-02T00:00:00+05:30 2026-03-09T00:00:00+05:30"},
		{"Asia/Kolkata", "2026-03-01T18:29:00Z", "2026-03-08T18:31:00Z", "2026-03-01T23:00:00+05:30 2026-03-09T01:00:00+05:30"},
		{"Asia/Kathmandu", "2026-03-01T18:15:00Z", "2026-03-08T18:15:00Z", "2026-03-02T00:00:00+05:45 2026-03-09T00:00:00+05:45"},
		{"Australia/Lord_Howe", "2026-04-03T13:00:00Z", "2026-04-05T13:30:00Z", "2026-04-04T00:00:00+11:00 2026-04-06T00:00:00+10:30"},
		{"Australia/Lord_Howe", "2025-10-04T15:45:00Z", "2025-10-04T16:00:00Z", "2025-10-05T01:00:00+10:30 2025-10-05T03:00:00+11:00"}, // the hour of 2:00 has half an hour
	} {
		zone, err := time.LoadLocation(test.zone)
		check(t, err)
		w, err := figures.NewWindow(parseTime(t, test.from), parseTime(t, test.to), now, zone)
		check(t, err)
		if got := w.From.Format(time.RFC3339) + " " + w.To.Format(time.RFC3339); got != test.want {
			t.Errorf("%s from %s to %s: %s, want %s", test.zone, test.from, test.to, got, test.want)
		}
	}
}
