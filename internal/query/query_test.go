package query_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/query"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"2026-01-31":                   {"2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		" 2026-01-31 ":                 {"2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		"2026-01-31T15:04":             {"2026-01-31T15:04:00Z", "2026-01-31T15:04:00Z"},
		"2026-01-31 15:04:05":          {"2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z"},
		"2026-01-31T15:04:05+01:00":    {"2026-01-31T14:04:05Z", "2026-01-31T14:04:05Z"},
		"2026-01-31T15:04:05.123456Z":  {"2026-01-31T15:04:05.123456Z", "2026-01-31T15:04:05.123456Z"},
		"2024-02-29":                   {"2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		"9999-12-31":                   {"9999-12-31T00:00:00Z", "10000-01-01T00:00:00Z"},
		"":                             {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		"2026-02-30":                   {},
		"yesterday":                    {},
		"31.01.2026":                   {},
		"2026-01-31T15:04:05":          {"2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z"},
		"2026-01-31T25:00":             {},
		"2026-01-31\x00":               {},
		"2026-01-31T15:04Z":            {},
		"20260131":                     {},
		"2026-01-31T15:04:05+01:00:00": {},
	} {
		for i, end := range []bool{false, true} {
			got, err := query.ParseTime(text, end, nil)
			switch {
			case (err != nil) != (want[i] == ""):
				t.Errorf("%q: %v", text, err)
			case err == nil && got.Format(time.RFC3339Nano) != want[i]:
				t.Errorf("%q: %s, want %s", text, got.Format(time.RFC3339Nano), want[i])
			}
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	one := uuid.New()
	find := func(_ context.Context, name string) ([]uuid.UUID, error) {
		if name == "broken" {
			return nil, errors.New("database away")
		}
		if name == "one" {
			return []uuid.UUID{one}, nil
		}
		return nil, nil
	}
	var r query.Reader
	if ids := r.Names(t.Context(), "agent", "", find, true); ids != nil {
		t.Errorf("no name means %v", ids)
	}
	if ids := r.Names(t.Context(), "agent", "one", find, true); len(ids) != 1 || ids[0] != one {
		t.Errorf("one is %v", ids)
	}
	if ids := r.Names(t.Context(), "agent", "none", find, false); ids == nil || len(ids) != 0 {
		t.Errorf("none is %v", ids)
	}
	if r.ID("id", one.String()) != one || r.ID("id", "") != uuid.Nil || r.Text("text", "é", 1) != "é" || r.Err() != nil {
		t.Errorf("what is right is refused: %v", r.Err())
	}
	r.Names(t.Context(), "agent", "none", find, true)
	r.Names(t.Context(), "skill", "a\x00", find, true)
	r.ID("id", uuid.Nil.String())
	r.Text("text", "éé", 1)
	r.Time("from", "never", false)
	var wrong *fault.InvalidError
	if !errors.As(r.Err(), &wrong) || len(wrong.Fields) != 5 {
		t.Fatalf("got %v", r.Err())
	}
	for i, field := range strings.Fields("agent skill id text from") {
		if wrong.Fields[i].Name != field || !strings.HasPrefix(wrong.Fields[i].Expected, "must be ") {
			t.Errorf("%+v, want %s", wrong.Fields[i], field)
		}
	}
	r.Names(t.Context(), "agent", "broken", find, true)
	if err := r.Err(); err == nil || errors.As(err, &wrong) {
		t.Errorf("an error of a look-up: %v", err)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	berlin, err := query.ParseZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]string{
		"2026-03-29":                {"2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // the clocks change
		"2026-01-31T15:04":          {"2026-01-31T14:04:00Z", "2026-01-31T14:04:00Z"},
		"2026-01-31T15:04:05+05:00": {"2026-01-31T10:04:05Z", "2026-01-31T10:04:05Z"},
	} {
		for i, end := range []bool{false, true} {
			if got, err := query.ParseTime(text, end, berlin); err != nil || got.Format(time.RFC3339) != want[i] {
				t.Errorf("%q: %v, %v, want %s", text, got, err, want[i])
			}
		}
	}
	for _, name := range []string{"Local", "Europe/Nowhere", "../zoneinfo/UTC", "/etc/localtime", "Europe/Berlin\x00", strings.Repeat("a", 5000)} {
		if zone, err := query.ParseZone(name); err == nil {
			t.Errorf("%q is %v", name, zone)
		}
	}
	if zone, err := query.ParseZone(""); err != nil || zone != time.UTC {
		t.Errorf("no zone is %v, %v", zone, err)
	}
}
