// Package history finds calls of the past: it searches, exports and counts them, and sums up the calls of conversations. It reads the
// tables of package call and changes nothing.
package history

import (
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Service reads the history of calls.
type Service struct {
	calls    *call.Service
	present  *postgres.Reader // of the primary alone
	searches chan struct{}    // a slot for each search that scans
}

// New makes a service that reads with the database, the agents and the clock of calls.
func New(calls *call.Service) *Service {
	return &Service{calls: calls, present: postgres.NewReader(calls.Pool), searches: make(chan struct{}, searchAtOnce)}
}

// readerFor returns the reader for a search. Only queries of people about the past may read a standby: other pages lead to decisions, and
// agents recover their calls by their lists.
func (s *Service) readerFor(f *Filter) *postgres.Reader {
	if f.past {
		return s.calls.Reader
	}
	return s.present
}
