package ui

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

const waitWindow = 100 // calls that wait for a connection, on the queue page

// waitState differs when the list of calls that wait for a connection does.
func (u *UI) waitState(ctx context.Context) (string, error) {
	list, err := u.cfg.Calls.Unconnected(ctx, uuid.Nil, waitWindow)
	if err != nil || len(list) == 0 {
		return "", err
	}
	sum := fnv.New64a()
	for i := range list {
		_, _ = sum.Write(append(list[i].Call.ID[:], list[i].Reason...)) // never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// unconnected presents the calls that wait for somebody to connect a skill.
func (u *UI) unconnected(ctx context.Context, access identity.Access, list []call.Unconnected, now time.Time) ([]view.Wait, error) {
	if len(list) == 0 {
		return nil, nil
	}
	names, err := u.names(ctx, principals(list)...)
	if err != nil {
		return nil, err
	}
	known := map[oauthclient.Key]view.Resolver{}
	rows := make([]view.Wait, len(list))
	for i := range list {
		rows[i] = presentWait(&list[i], names, now)
		c := &list[i].Call
		key := oauthclient.Key{SkillID: c.SkillID, Principal: c.PrincipalID}
		resolver, ok := known[key]
		if !ok {
			if resolver, err = u.resolver(ctx, access, c, names); err != nil {
				return nil, err
			}
			known[key] = resolver
		}
		rows[i].Who = resolver
	}
	return rows, nil
}

func principals(list []call.Unconnected) []uuid.UUID {
	people := make([]uuid.UUID, len(list))
	for i := range list {
		people[i] = list[i].Call.PrincipalID
	}
	return people
}

// resolver says who can connect what a call waits for.
func (u *UI) resolver(ctx context.Context, access identity.Access, c *call.Call, names map[uuid.UUID]string) (view.Resolver, error) {
	skill, _, err := u.cfg.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return view.Resolver{Before: "The skill was removed; the call will end."}, nil
	}
	if err != nil {
		return view.Resolver{}, err
	}
	l, err := u.linkFor(ctx, access, skill, c.PrincipalID)
	if err != nil {
		return view.Resolver{}, err
	}
	return presentResolver(l, personName(c.PrincipalID, names)), nil
}

// wait is a call's wait for a connection, with who can end it; nil when the call does not wait for one.
func (u *UI) wait(ctx context.Context, access identity.Access, s *subject) (*view.Wait, error) {
	if s.call.Status != call.NeedsConnection {
		return nil, nil
	}
	// The deadline is left out of a call that is not among the first of its skill.
	waiting := call.Unconnected{Call: s.call, Reason: s.call.Message}
	list, err := u.cfg.Calls.Unconnected(ctx, s.call.SkillID, waitWindow)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Call.ID == s.call.ID {
			waiting.Reason, waiting.Deadline = list[i].Reason, list[i].Deadline
		}
	}
	presented := presentWait(&waiting, s.names, s.pulse.Now)
	presented.Who, err = u.resolver(ctx, access, &s.call, s.names)
	return &presented, err
}

func presentWait(w *call.Unconnected, names map[uuid.UUID]string, now time.Time) view.Wait {
	c := &w.Call
	wait := view.Wait{
		ID: c.ID.String(), URL: callURL(c.ID), Skill: c.Skill, Tool: c.Tool, Agent: c.Agent,
		Principal: personName(c.PrincipalID, names), Reason: w.Reason,
	}
	if !w.Deadline.IsZero() {
		left := countdown(w.Deadline, now)
		wait.Countdown = &left
	}
	return wait
}
