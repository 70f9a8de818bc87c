package mcptool

import (
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The pauses before a child that keeps dying is started again.
const (
	minRest = 250 * time.Millisecond
	maxRest = 30 * time.Second
	// settled is how long a child must have lived for its death to be no
	// sign that the next will die as well.
	settled = 10 * time.Second
)

// rest keeps a server that dies at once from being started over and over. One
// death is followed by a start at once, more in a row by ever longer pauses,
// in which requests fail with the last failure.
type rest struct {
	deaths int
	until  time.Time
	last   *tool.Failure
}

// failed notes that connecting failed.
func (r *rest) failed(now time.Time, failure *tool.Failure) {
	r.deaths++
	r.last = failure
	if r.deaths > 1 {
		r.until = now.Add(min(maxRest, minRest<<min(r.deaths-2, 16)))
	}
}

// broke notes that a peer broke that had connected.
func (r *rest) broke(now, since time.Time) {
	if now.Sub(since) >= settled {
		*r = rest{}
		return
	}
	r.failed(now, tool.BrokeOff(tool.EffectNone, nil, "the server died shortly after its start"))
}

// refuses returns the failure of a request that comes within a pause.
func (r *rest) refuses(now time.Time) *tool.Failure {
	if r.last == nil || !now.Before(r.until) {
		return nil
	}
	f := *r.last
	f.Message = fmt.Sprintf("%s; it is started again in %s", f.Message, r.until.Sub(now).Round(100*time.Millisecond))
	return &f
}
