package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Attached is a file of a call. It never changes.
type Attached struct {
	FileID      uuid.UUID
	Filename    string // from the arguments, or as announced
	ContentType string // from the arguments, or as announced
	Size        int64  // bytes
	SHA256      [sha256.Size]byte

	object         string
	capabilityHash []byte
}

const attachedSQL = `SELECT c.call_id, c.file_id, c.filename, c.content_type, f.size, c.sha256, f.object
	FROM call_files c JOIN files f ON f.id = c.file_id WHERE `

func scanAttached(row pgx.CollectableRow) (of struct {
	CallID uuid.UUID
	Attached
}, err error,
) {
	var sum []byte
	err = row.Scan(&of.CallID, &of.FileID, &of.Filename, &of.ContentType, &of.Size, &sum, &of.object)
	if err == nil && copy(of.SHA256[:], sum) != len(of.SHA256) {
		err = fmt.Errorf("SHA-256 of %d bytes", len(sum))
	}
	return of, err
}

// IsDeleted reports whether the content was deleted by age.
func (a *Attached) IsDeleted() bool { return a.object == "" }

// OfCalls returns the files of calls, in the order of the arguments.
func (s *Service) OfCalls(ctx context.Context, calls []uuid.UUID) (map[uuid.UUID][]Attached, error) {
	rows, _ := s.Pool.Query(ctx, attachedSQL+`c.call_id = ANY($1) ORDER BY c.call_id, c.position`, calls)
	found, err := pgx.CollectRows(rows, scanAttached)
	if err != nil {
		return nil, fmt.Errorf("read files of calls: %w", err)
	}
	files := map[uuid.UUID][]Attached{}
	for _, f := range found {
		files[f.CallID] = append(files[f.CallID], f.Attached)
	}
	return files, nil
}

// OfCall returns one file of a call, or ErrNotFound.
func (s *Service) OfCall(ctx context.Context, callID, fileID uuid.UUID) (Attached, error) {
	return s.readAttached(ctx, `c.call_id = $1 AND c.file_id = $2`, callID, fileID)
}

func (s *Service) readAttached(ctx context.Context, condition string, args ...any) (Attached, error) {
	rows, _ := s.Pool.Query(ctx, attachedSQL+condition+` ORDER BY c.position LIMIT 1`, args...)
	found, err := pgx.CollectExactlyOneRow(rows, scanAttached)
	if errors.Is(err, pgx.ErrNoRows) {
		return Attached{}, ErrNotFound
	}
	if err != nil {
		return Attached{}, fmt.Errorf("read file of call: %w", err)
	}
	return found.Attached, nil
}

// Record attaches files to calls, in the transaction that inserts the calls. Attached files are not deleted. It returns an
// *[AttachmentError] if a file, or its content, was deleted meanwhile.
func Record(ctx context.Context, tx pgx.Tx, calls map[uuid.UUID][]Attached) error {
	var ids, owners, list []uuid.UUID
	var positions []int32
	var names, types []string
	var sums, capabilities [][]byte
	for callID, files := range calls {
		for i := range files {
			f := &files[i]
			owners, positions, list = append(owners, callID), append(positions, int32(i)), append(list, f.FileID)
			names, types = append(names, f.Filename), append(types, f.ContentType)
			sums, capabilities = append(sums, f.SHA256[:]), append(capabilities, f.capabilityHash)
			if !slices.Contains(ids, f.FileID) {
				ids = append(ids, f.FileID)
			}
		}
	}
	// The order prevents deadlocks between transactions with the same files.
	rows, _ := tx.Query(ctx, `SELECT id FROM files WHERE id = ANY($1) AND content_deleted_at IS NULL ORDER BY id FOR UPDATE`, ids)
	stored, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("lock files: %w", err)
	}
	for i, id := range list {
		if !slices.Contains(stored, id) {
			return newDeletedError(int(positions[i]), id, names[i])
		}
	}
	_, err = tx.Exec(ctx, `UPDATE files SET attached_at = holdpoint_now() WHERE id = ANY($1) AND attached_at IS NULL`, ids)
	if err != nil {
		return fmt.Errorf("keep files: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO call_files (call_id, position, file_id, filename, content_type, sha256, capability_hash)
		SELECT call_id, position, file_id, filename, content_type, sha256, capability_hash
		FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::text[], $6::bytea[], $7::bytea[])
			AS c(call_id, position, file_id, filename, content_type, sha256, capability_hash)`,
		owners, positions, list, names, types, sums, capabilities)
	if err != nil {
		return fmt.Errorf("attach files: %w", err)
	}
	return nil
}

// Verify reads files completely. It returns ErrChanged if the content of one has changed.
func (s *Service) Verify(ctx context.Context, files []Attached) error {
	seen := map[string]bool{}
	for i := range files {
		f := &files[i]
		if seen[f.object] {
			continue
		}
		seen[f.object] = true
		sum, err := s.objects.sumObject(ctx, f.object, f.Size)
		if err == nil && sum != f.SHA256 {
			err = ErrChanged
		}
		if err != nil {
			return fmt.Errorf("check file %s: %w", f.FileID, err)
		}
	}
	return nil
}
