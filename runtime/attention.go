package runtime

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/notify"
)

func (rt *Runtime) makeNotify() error {
	var err error
	rt.Notify, err = notify.New(notify.Config{
		Pool: rt.DB.Pool(), Box: rt.Box, Identity: rt.Identity, Logger: rt.Logger, Now: rt.Now, PublicURL: rt.PublicURL,
		TrustedHosts: rt.TrustedHosts, AllowSelfApproval: rt.AllowSelfApproval, Waiting: rt.waiting,
	})
	return err
}

// waiting returns, for package notify, those of the calls that nobody has decided about.
func (rt *Runtime) waiting(ctx context.Context, calls []uuid.UUID) ([]uuid.UUID, error) {
	approvals, err := approval.Of(ctx, rt.DB.Pool(), calls...)
	if err != nil {
		return nil, err
	}
	waiting := make([]uuid.UUID, 0, len(approvals))
	for i := range approvals {
		if approvals[i].Status == approval.Pending {
			waiting = append(waiting, approvals[i].CallID)
		}
	}
	return waiting, nil
}
