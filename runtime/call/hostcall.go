package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// HostCall is how a host names a call, before the call and in its report afterwards. Models repeat ids: the last call that was named so counts.
type HostCall struct{ Session, ID, Tool string }

// hashKey returns the key of the name among the requests of callers.
func (h *HostCall) hashKey(viewer Viewer) []byte {
	return hashParts(viewer.AgentID[:], viewer.PrincipalID[:], []byte("host call"), []byte(h.Session), []byte(h.ID), []byte(h.Tool))
}

// NameHostCall records how the host of a released call names it, for a report that may reach another process.
func (s *Service) NameHostCall(ctx context.Context, viewer Viewer, id uuid.UUID, h HostCall) error {
	_, err := s.Pool.Exec(ctx, `INSERT INTO gate_requests (key, call_id, sum) VALUES ($1, $2, '')
		ON CONFLICT (key) DO UPDATE SET call_id = excluded.call_id`, h.hashKey(viewer), id)
	if err != nil {
		return fmt.Errorf("name call %s as its host does: %w", id, err)
	}
	return nil
}

// ReportHostCall records the outcome of a released call, as [Service.ReportOutcome] does. Errors: ErrNotFound, ErrNotReleased.
func (s *Service) ReportHostCall(ctx context.Context, viewer Viewer, h HostCall, r Report) error {
	var id uuid.UUID
	err := s.Pool.QueryRow(ctx, `SELECT call_id FROM gate_requests WHERE key = $1`, h.hashKey(viewer)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("find the call that its host names: %w", err)
	}
	c, released, err := s.loadGated(ctx, viewer, id)
	if err == nil && released == nil {
		err = ErrNotReleased
	}
	if err == nil {
		err = s.storeReport(ctx, viewer, c, r)
	}
	if err != nil {
		return fmt.Errorf("report the outcome of call %s: %w", id, err)
	}
	return nil
}
