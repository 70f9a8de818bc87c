package call

import (
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// TestLineageBegins: an instance that starts on a later timeline than the first waits until the others have recalled what they sent.
func TestLineageBegins(t *testing.T) {
	t.Parallel()
	other := uuid.New()
	beats := func(recalled postgres.Timeline, unchanged int) map[uuid.UUID]peer {
		return map[uuid.UUID]peer{other: {heartbeat{"1", recalled}, unchanged}}
	}
	var l lineage
	if l.begin(1); l.settled != 1 {
		t.Error("it waits on the first timeline")
	}
	l.begin(2)
	for i, beat := range []struct {
		peers   map[uuid.UUID]peer
		settled bool
	}{{beats(0, 0), false}, {beats(1, goneBeats-1), false}, {beats(2, goneBeats-1), true}} {
		if noteBeats(&l, 2, beat.peers); (l.settled == 2) != beat.settled {
			t.Errorf("after heartbeat %d, settled is %d", i, l.settled)
		}
	}
	var alone, gone lineage
	alone.begin(2)
	gone.begin(2)
	if !noteBeats(&alone, 2, nil) || noteBeats(&gone, 2, beats(1, 0)) || !noteBeats(&gone, 2, beats(1, goneBeats)) {
		t.Error("it waits for nobody, or for an instance that is gone")
	}
}

// noteBeats settles a timeline if all instances that live have recalled their calls on it, and reports whether they have.
func noteBeats(l *lineage, timeline postgres.Timeline, peers map[uuid.UUID]peer) bool {
	if !l.isRecalledByAll(timeline, peers) {
		return false
	}
	l.settle(timeline)
	return true
}
