package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// insertEvents writes n events, one per minute from start; each thousandth is rare.
func insertEvents(t *testing.T, pool *pgxpool.Pool, n int, start time.Time) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `INSERT INTO audit_events (at, subject_id, actor_id, actor_kind, action, data)
		SELECT $2::timestamptz + i * interval '1 minute', gen_random_uuid(), NULL, 'system',
			CASE WHEN i % 1000 = 0 THEN 'rare.thing' ELSE 'common.thing' END, jsonb_build_object('i', i)
		FROM generate_series(1, $1) AS i`, n, start)
	if err != nil {
		t.Fatal(err)
	}
}

// searchAll returns the events of all pages, and how often the search stopped early.
func searchAll(t *testing.T, pool *pgxpool.Pool, f audit.Filter) (events []audit.Event, stops int) {
	t.Helper()
	for {
		found, err := audit.Search(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, found.Events...)
		if found.Stopped {
			stops++
		}
		if found.Next == 0 {
			return events, stops
		}
		f.Before = found.Next
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t).Pool()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insertEvents(t, pool, 120_000, start) // about 83 days
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	for name, tt := range map[string]struct {
		filter audit.Filter
		want   int
		newest string // data of the newest event
	}{
		"rare ones":        {audit.Filter{Action: "rare.thing"}, 120, `{"i": 120000}`},
		"by noun":          {audit.Filter{Action: "rare", Limit: 7}, 120, `{"i": 120000}`},
		"half a noun":      {audit.Filter{Action: "rar"}, 0, ""},
		"underscore":       {audit.Filter{Action: "r_re.thing"}, 0, ""},
		"a while":          {audit.Filter{From: at(50_000), To: at(50_100), Limit: 30}, 100, `{"i": 50099}`},
		"rare for a while": {audit.Filter{Action: "rare", From: at(1), To: at(2_001)}, 2, `{"i": 2000}`},
		"since":            {audit.Filter{From: at(119_998)}, 3, `{"i": 120000}`},
		"until":            {audit.Filter{To: at(3)}, 2, `{"i": 2}`},
		"never":            {audit.Filter{From: at(200_000)}, 0, ""},
		"before all":       {audit.Filter{To: start}, 0, ""},
		"nobody":           {audit.Filter{Actors: []uuid.UUID{}}, 0, ""},
		"somebody":         {audit.Filter{Actors: []uuid.UUID{uuid.New()}}, 0, ""},
		"Holdpoint":        {audit.Filter{Kind: audit.KindSystem, To: at(11)}, 10, `{"i": 10}`},
	} {
		events, _ := searchAll(t, pool, tt.filter)
		if len(events) != tt.want {
			t.Errorf("%s: %d events, want %d", name, len(events), tt.want)
		}
		if len(events) > 0 && string(events[0].Raw) != tt.newest {
			t.Errorf("%s: the newest is %s, want %s", name, events[0].Raw, tt.newest)
		}
		for i := 1; i < len(events); i++ {
			if events[i].ID >= events[i-1].ID {
				t.Fatalf("%s: not newest first", name)
			}
		}
	}
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t).Pool()
	subject := uuid.New()
	_, err := pool.Exec(t.Context(), `INSERT INTO audit_events (subject_id, actor_kind, action) VALUES ($1, 'system', 'first.thing')`, subject)
	if err != nil {
		t.Fatal(err)
	}
	// Gaps between ids count toward the limit too.
	_, err = pool.Exec(t.Context(), `SELECT setval(pg_get_serial_sequence('audit_events', 'id'), $1)`, audit.MaxSearched+10)
	if err != nil {
		t.Fatal(err)
	}
	insertEvents(t, pool, 10, time.Now())
	events, stops := searchAll(t, pool, audit.Filter{Action: "first.thing"})
	if len(events) != 1 || stops != 1 {
		t.Errorf("%d events, stopped %d times", len(events), stops)
	}
	if events, stops = searchAll(t, pool, audit.Filter{Subject: subject}); len(events) != 1 || stops != 0 {
		t.Errorf("by subject: %d events, stopped %d times", len(events), stops)
	}
}
