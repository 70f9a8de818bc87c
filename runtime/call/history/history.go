// Package history finds calls of the past: it searches, exports and counts them, and sums up the calls of conversations. It reads the
// tables of package call and changes nothing.
package history

import (
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Service reads the history of calls.
type Service struct {
	calls    *call.Service
	searches chan struct{} // a slot for each search that scans
}

// New makes a service that reads with the database, the agents and the clock of calls.
func New(calls *call.Service) *Service {
	return &Service{calls: calls, searches: make(chan struct{}, searchAtOnce)}
}
