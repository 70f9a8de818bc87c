package queue

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/view"
)

// readWaitState returns a text that changes with the list of calls that wait for a connection.
func (h *Handler) readWaitState(ctx context.Context) (string, error) {
	list, err := h.calls.ListUnconnected(ctx, uuid.Nil, present.WaitWindow)
	if err != nil || len(list) == 0 {
		return "", err
	}
	sum := fnv.New64a()
	for i := range list {
		_, _ = sum.Write(append(list[i].Call.ID[:], list[i].Reason...)) // never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// presentWaits presents the calls that wait for a connection.
func (h *Handler) presentWaits(ctx context.Context, access identity.Access, list []call.Unconnected, now time.Time) ([]view.Wait, error) {
	if len(list) == 0 {
		return nil, nil
	}
	names, err := h.Names(ctx, present.Principals(list)...)
	if err != nil {
		return nil, err
	}
	known := map[oauthclient.Key]view.Resolver{}
	rows := make([]view.Wait, len(list))
	for i := range list {
		rows[i] = present.Wait(&list[i], names, now)
		c := &list[i].Call
		key := oauthclient.Key{SkillID: c.SkillID, Principal: c.PrincipalID}
		resolver, ok := known[key]
		if !ok {
			if resolver, err = h.connections.Resolver(ctx, access, c, names); err != nil {
				return nil, err
			}
			known[key] = resolver
		}
		rows[i].Who = resolver
	}
	return rows, nil
}
