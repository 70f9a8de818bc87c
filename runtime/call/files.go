package call

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// DownloadLifetime is how long after the claim a skill's server can download attachments, unless the call's timeout is longer.
const DownloadLifetime = time.Hour

// freezeAttachments replaces the attachments of a call by their URLs. The attach key continues to use the agent's arguments.
func (s *Service) freezeAttachments(ctx context.Context, c *Call, definition tool.Definition) error {
	if s.Files == nil {
		return nil
	}
	owner := file.Owner{AgentID: c.AgentID, PrincipalID: c.PrincipalID}
	frozen, files, err := s.Files.Freeze(ctx, owner, c.ID, definition.InputSchema, c.Arguments)
	if err != nil || len(files) == 0 {
		return err
	}
	if len(frozen) > MaxArgumentBytes {
		return &file.AttachmentError{
			Pointer: "/" + file.Member, Expected: fmt.Sprintf("must leave arguments of at most %d bytes, with the URLs of the files in them", MaxArgumentBytes),
		}
	}
	c.unfrozen, c.Arguments, c.Files, c.hasFiles = c.Arguments, frozen, files, true
	return nil
}

// recordFiles stores the files of inserted calls.
func recordFiles(ctx context.Context, tx pgx.Tx, items []*intakeItem) error {
	files := map[uuid.UUID][]file.Attached{}
	batch := &pgx.Batch{}
	for _, item := range items {
		if len(item.call.Files) > 0 {
			files[item.call.ID] = item.call.Files
			batch.Queue(`UPDATE calls SET made = $2 WHERE id = $1`, item.call.ID, []byte(item.call.unfrozen))
		}
	}
	if len(files) == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("store files of calls: %w", err)
	}
	return file.Record(ctx, tx, files)
}

// isFileGone reports whether a call cannot be recorded because an attached file was deleted in the meantime.
func isFileGone(err error) bool {
	_, ok := errors.AsType[*file.AttachmentError](err)
	return ok
}

// readFiles reads the files of calls.
func (s *Service) readFiles(ctx context.Context, calls []Call) error {
	var ids []uuid.UUID
	for i := range calls {
		if calls[i].hasFiles && calls[i].Files == nil {
			ids = append(ids, calls[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if s.Files == nil {
		return errors.New("read files of calls: this server has no storage for files")
	}
	files, err := s.Files.OfCalls(ctx, ids)
	if err != nil {
		return err
	}
	for i := range calls {
		if calls[i].hasFiles && calls[i].Files == nil {
			calls[i].Files = files[calls[i].ID]
		}
	}
	return nil
}

// recheckFiles compares the stored files with their hashes in the envelope.
func (s *Service) recheckFiles(ctx context.Context, c *Call) (*refusal, error) {
	if len(c.Files) == 0 {
		return nil, nil
	}
	err := s.Files.Verify(ctx, c.Files)
	if errors.Is(err, file.ErrChanged) {
		s.Logger.Error("an attached file is not the one that was approved", "call", c.ID, "error", err)
		return newDenial(CodeFileChanged, "an attached file is not in storage as it was when this call was made"), nil
	}
	return nil, err
}

// CanDownload reports whether a call's server may download its attachments now: from the claim on, for [DownloadLifetime] by the
// database's clock.
func (s *Service) CanDownload(ctx context.Context, id uuid.UUID) (bool, error) {
	var skillID uuid.UUID
	var since float64
	err := s.Pool.QueryRow(ctx, `SELECT skill_id, extract(epoch FROM holdpoint_now() - claimed_at)::float8 FROM calls
		WHERE id = $1 AND claimed_at IS NOT NULL AND status IN ('executing', 'succeeded', 'failed', 'unknown')`, id).Scan(&skillID, &since)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read claim of call %s: %w", id, err)
	}
	lifetime := DownloadLifetime
	skill, _, err := s.Agents.Skill(ctx, skillID)
	if err != nil && !errors.Is(err, agent.ErrNotFound) {
		return false, err
	}
	if err == nil {
		lifetime = max(lifetime, skill.CallTimeout)
	}
	return since < lifetime.Seconds(), nil
}

// OpenFile returns a file of a call that the viewer may see, and writes an audit event. Errors: ErrNotFound.
func (s *Service) OpenFile(ctx context.Context, viewer Viewer, by audit.Actor, id, fileID uuid.UUID) (file.Attached, error) {
	if _, err := s.loadVisible(ctx, viewer, id); err != nil {
		return file.Attached{}, err
	}
	if s.Files == nil {
		return file.Attached{}, ErrNotFound
	}
	a, err := s.Files.OfCall(ctx, id, fileID)
	if errors.Is(err, file.ErrNotFound) {
		return a, ErrNotFound
	}
	if err != nil {
		return a, err
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.CallFileOpened, Subject: id, Data: map[string]any{"file": fileID, "sha256": hex.EncodeToString(a.SHA256[:])},
		})
	})
	if err != nil {
		return a, fmt.Errorf("record that a file is opened: %w", err)
	}
	return a, nil
}
