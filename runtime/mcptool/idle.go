package mcptool

import (
	"math"
	"slices"
	"time"
)

// Each person has a session of their own with a skill of which each has a connection of their own. Those that nobody
// uses are ended, so that their number is not that of all people who ever made a call. Sessions that all share stay.

// watchIdle has the keeper of a person's session ended when it was not used for a while. The caller holds Source.mu.
func (k *keeper) watchIdle() {
	k.used = k.source.config.Now()
	if k.server.PerUser {
		k.idle = time.AfterFunc(math.MaxInt64, k.closeIdle) // which needs it, and so does not begin before it is there
		k.idle.Reset(k.source.config.Limits.SessionIdle)
	}
}

// closeIdle ends the keeper if it was idle for long enough, and looks again later if it was not.
func (k *keeper) closeIdle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.retired {
		return
	}
	limit := k.source.config.Limits.SessionIdle
	left := limit - k.source.config.Now().Sub(k.used)
	switch {
	case !k.isIdle():
		k.idle.Reset(limit)
	case left > 0:
		k.idle.Reset(left)
	default:
		k.end()
	}
}

// isIdle reports whether nothing needs the session now. The caller holds k.mu.
func (k *keeper) isIdle() bool {
	return (k.current == nil || k.current.users == 0) && k.attempt == nil && len(k.subscriptions) == 0
}

// end takes the keeper out of the source, and retires it. The caller holds k.mu.
func (k *keeper) end() {
	s, key := k.source, keyOf(k.server)
	s.mu.Lock()
	if s.keepers[key] == k {
		delete(s.keepers, key)
	}
	s.mu.Unlock()
	k.retireLocked()
}

// trim ends those people's sessions that are idle and were not used for the longest time, until there are few enough.
func (s *Source) trim() {
	type candidate struct {
		keeper *keeper
		used   time.Time
	}
	var all []candidate
	for _, k := range s.personal() {
		k.mu.Lock()
		if k.current != nil && k.isIdle() {
			all = append(all, candidate{k, k.used})
		}
		k.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b candidate) int { return a.used.Compare(b.used) })
	for _, one := range all {
		if len(s.personal()) <= s.config.Limits.Sessions {
			return
		}
		one.keeper.mu.Lock()
		if !one.keeper.retired && one.keeper.isIdle() {
			one.keeper.end()
		}
		one.keeper.mu.Unlock()
	}
}

// personal are the keepers of people's sessions.
func (s *Source) personal() []*keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*keeper
	for _, k := range s.keepers {
		if k.server.PerUser {
			list = append(list, k)
		}
	}
	return list
}
