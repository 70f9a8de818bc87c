package call

import (
	"context"
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

// DownloadLifetime is for how long after the claim a skill's server can download what is attached, or for the call's
// timeout where that is longer.
const DownloadLifetime = time.Hour

// freeze makes of a call's attachments what its server gets. What the agent wrote stays what a repeat is known by.
func (s *Service) freeze(ctx context.Context, c *Call, definition tool.Definition) error {
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
			Pointer: "/" + file.Member, Expected: fmt.Sprintf("want arguments of at most %d bytes, with the URLs of the files in them", MaxArgumentBytes),
		}
	}
	c.unfrozen, c.Arguments, c.Files, c.hasFiles = c.Arguments, frozen, files, true
	return nil
}

// recordFiles writes the files of freshly inserted calls.
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
		return fmt.Errorf("note files of calls: %w", err)
	}
	err := file.Record(ctx, tx, files)
	if errors.Is(err, file.ErrNotFound) {
		return &file.AttachmentError{Pointer: "/" + file.Member, Expected: "want files that are there; one was deleted while this call was made"}
	}
	return err
}

// gone reports whether a call cannot be recorded because its agent deleted a file of it meanwhile.
func gone(err error) bool {
	_, ok := errors.AsType[*file.AttachmentError](err)
	return ok
}

// readFiles fills in the files of those calls that have some.
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

func fileHashes(files []file.Attached) [][]byte {
	var hashes [][]byte
	for i := range files {
		hashes = append(hashes, files[i].SHA256[:])
	}
	return hashes
}

// recheckFiles compares what is stored with what was decided about.
func (s *Service) recheckFiles(ctx context.Context, c *Call) (*refusal, error) {
	if len(c.Files) == 0 {
		return nil, nil
	}
	err := s.Files.Verify(ctx, c.Files)
	if errors.Is(err, file.ErrChanged) {
		s.Logger.Error("an attached file is not the one that was approved", "call", c.ID, "error", err)
		return denied(CodeFileChanged, "an attached file is not in storage as it was when this call was made"), nil
	}
	return nil, err
}

// editProblem says of attachments what an edit may not do with them.
func editProblem(err error) error {
	if refused, ok := errors.AsType[*file.AttachmentError](err); ok {
		return &EditError{Problems: []tool.Problem{{Pointer: refused.Pointer, Message: refused.Expected}}}
	}
	return err
}

// FilesOpen reports whether a call's server may download now what is attached to it: the call was claimed for sending, and
// not longer ago than [DownloadLifetime]. It goes by the database's clock.
func (s *Service) FilesOpen(ctx context.Context, id uuid.UUID) (bool, error) {
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

// OpenFile notes that somebody opens a file of a call that they may see, and returns it. Errors: ErrNotFound.
func (s *Service) OpenFile(ctx context.Context, viewer Viewer, by audit.Actor, id, fileID uuid.UUID) (file.Attached, error) {
	c, err := s.load(ctx, id)
	if err != nil {
		return file.Attached{}, err
	}
	if !viewer.sees(c) || s.Files == nil {
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
			Actor: by, Action: "call.file_opened", Subject: id, Data: map[string]any{"file": fileID, "filename": a.Filename},
		})
	})
	if err != nil {
		return a, fmt.Errorf("note that a file is opened: %w", err)
	}
	return a, nil
}
