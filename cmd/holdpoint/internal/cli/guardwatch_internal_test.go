package cli

import (
	"errors"
	"slices"
	"testing"
)

// A watcher reports a guard only if it does not hold on two readings: an installation writes several files, one after the other.
func TestWatcherReadsTwice(t *testing.T) {
	t.Parallel()
	const file = "settings.json"
	holds, broken := map[string]guardReading{file: {}}, map[string]guardReading{file: {problems: []string{"the hook is altered"}}}
	known := knownGuards{}
	for _, step := range []struct {
		name     string
		readings []map[string]guardReading
		problems int
		changed  []string
	}{
		{"a new guard that is being installed", []map[string]guardReading{broken, holds}, 0, []string{file}},
		{"it still holds", []map[string]guardReading{holds}, 0, nil},
		{"it is installed again", []map[string]guardReading{broken, holds}, 0, nil},
		{"the hook is altered", []map[string]guardReading{broken, broken}, 1, []string{file}},
		{"it stays altered", []map[string]guardReading{broken}, 1, nil},
		{"it is mended", []map[string]guardReading{holds}, 0, []string{file}},
	} {
		count, waits := 0, 0
		found, err := known.readSettled(func() (map[string]guardReading, error) {
			count++
			return step.readings[count-1], nil
		}, func() error { waits++; return nil })
		if err != nil || count != len(step.readings) || waits != count-1 {
			t.Fatalf("%s: %d readings, %d pauses, %v", step.name, count, waits, err)
		}
		if changed := known.storeReadings(found); !slices.Equal(changed, step.changed) || len(known[file].problems) != step.problems {
			t.Errorf("%s: changed %q, problems %q", step.name, changed, known[file].problems)
		}
	}
	stopped := errors.New("stopped")
	_, err := known.readSettled(func() (map[string]guardReading, error) { return broken, nil }, func() error { return stopped })
	if !errors.Is(err, stopped) {
		t.Errorf("a watcher that is stopped: %v", err)
	}
}
