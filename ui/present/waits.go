package present

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

// WaitWindow bounds how many calls that wait for a connection a page lists.
const WaitWindow = 100

// Principals returns the people on whose behalf calls were made.
func Principals(list []call.Unconnected) []uuid.UUID {
	people := make([]uuid.UUID, len(list))
	for i := range list {
		people[i] = list[i].Call.PrincipalID
	}
	return people
}

// Wait presents a call that waits for a connection.
func Wait(w *call.Unconnected, names map[uuid.UUID]string, now time.Time) view.Wait {
	c := &w.Call
	wait := view.Wait{
		ID: c.ID.String(), URL: CallURL(c.ID), Skill: c.Skill, Tool: c.Tool, Agent: c.Agent,
		Principal: PersonName(c.PrincipalID, names), Reason: w.Reason,
	}
	if !w.Deadline.IsZero() {
		left := Countdown(w.Deadline, now)
		wait.Countdown = &left
	}
	return wait
}
