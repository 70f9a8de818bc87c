package file

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Announcement describes a file before its upload.
type Announcement struct {
	Filename    string
	ContentType string
	Size        int64  // bytes
	SHA256      string // in hex; may be empty
}

// Presigned is an announced file with its upload URL. Anyone who has the URL can PUT the content once.
type Presigned struct {
	File      File
	UploadURL string
	ExpiresAt time.Time
}

// Presign announces a file and returns its upload URL. Errors: *[RefusedError], ErrTooMany.
func (s *Service) Presign(ctx context.Context, owner Owner, a Announcement) (Presigned, error) {
	f := File{Owner: owner, Filename: a.Filename, Size: a.Size}
	if err := checkFilename(a.Filename); err != nil {
		return Presigned{}, err
	}
	var err error
	if f.ContentType, err = s.checkType(a.ContentType); err != nil {
		return Presigned{}, err
	}
	switch {
	case a.Size < 0:
		return Presigned{}, &RefusedError{Invalid, "size", "must be the number of bytes"}
	case a.Size > s.MaxSize:
		return Presigned{}, &RefusedError{TooLarge, "size", fmt.Sprintf("must be at most %d bytes", s.MaxSize)}
	}
	if a.SHA256 != "" {
		f.declared, err = hex.DecodeString(a.SHA256)
		if err != nil || len(f.declared) != 32 || strings.ToLower(a.SHA256) != a.SHA256 {
			return Presigned{}, &RefusedError{Invalid, "sha256", "must be 64 hexadecimal digits in lower case"}
		}
	}
	if f.ID, err = uuid.NewV7(); err != nil {
		return Presigned{}, err
	}
	capability, hash := newCapability()
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var unattached int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM files WHERE agent_id = $1 AND attached_at IS NULL`, owner.AgentID).Scan(&unattached)
		if err != nil {
			return err
		}
		if unattached >= maxUnattached {
			return ErrTooMany
		}
		return tx.QueryRow(ctx, `INSERT INTO files (id, agent_id, principal_id, filename, content_type, size, declared_sha256,
				upload_hash, upload_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, holdpoint_now() + $9 * interval '1 microsecond') RETURNING created_at, upload_until`,
			f.ID, owner.AgentID, postgres.OrNull(owner.PrincipalID), f.Filename, f.ContentType, f.Size, f.declared,
			hash, s.UploadLifetime.Microseconds()).Scan(&f.CreatedAt, &f.UploadUntil)
	})
	if err != nil {
		return Presigned{}, fmt.Errorf("announce file: %w", err)
	}
	return Presigned{File: f, UploadURL: s.PublicURL + uploadPath + capability, ExpiresAt: f.UploadUntil}, nil
}

const fileColumns = `id, agent_id, principal_id, filename, content_type, size, sha256, created_at, upload_until, uploaded_at,
	attached_at, declared_sha256, coalesce(object, '')`

func scanFile(row pgx.CollectableRow) (File, error) {
	var f File
	var principal *uuid.UUID
	err := row.Scan(&f.ID, &f.Owner.AgentID, &principal, &f.Filename, &f.ContentType, &f.Size, &f.SHA256, &f.CreatedAt, &f.UploadUntil,
		&f.UploadedAt, &f.AttachedAt, &f.declared, &f.object)
	if principal != nil {
		f.Owner.PrincipalID = *principal
	}
	return f, err
}

// ownedBy is the SQL condition on an owner: $1 and $2.
const ownedBy = ` agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2`

// Get returns a file of an owner, or ErrNotFound.
func (s *Service) Get(ctx context.Context, owner Owner, id uuid.UUID) (File, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE`+ownedBy+` AND id = $3`,
		owner.AgentID, postgres.OrNull(owner.PrincipalID), id)
	return collectFile(rows, id)
}

// Owned returns a file of any agent for this principal (uuid.Nil: none). The caller must check that it may act as the file's
// agent.
func (s *Service) Owned(ctx context.Context, principal, id uuid.UUID) (File, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE principal_id IS NOT DISTINCT FROM $1 AND id = $2`,
		postgres.OrNull(principal), id)
	return collectFile(rows, id)
}

func collectFile(rows pgx.Rows, id uuid.UUID) (File, error) {
	f, err := pgx.CollectExactlyOneRow(rows, scanFile)
	if errors.Is(err, pgx.ErrNoRows) {
		return File{}, ErrNotFound
	}
	if err != nil {
		return File{}, fmt.Errorf("read file %s: %w", id, err)
	}
	return f, nil
}

// Delete deletes an unattached file. Errors: ErrNotFound, ErrAttached.
func (s *Service) Delete(ctx context.Context, by audit.Actor, owner Owner, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var attached bool
		err := tx.QueryRow(ctx, `SELECT attached_at IS NOT NULL FROM files WHERE`+ownedBy+` AND id = $3 FOR UPDATE`,
			owner.AgentID, postgres.OrNull(owner.PrincipalID), id).Scan(&attached)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return err
		case attached:
			return ErrAttached
		}
		if _, err := tx.Exec(ctx, `DELETE FROM files WHERE id = $1`, id); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.FileDeleted, Subject: id})
	})
	if err != nil {
		return fmt.Errorf("delete file %s: %w", id, err)
	}
	return s.objects.dropOrphans(ctx, `o.file_id = $1 AND NOT EXISTS (SELECT FROM files f WHERE f.id = o.file_id)`, id)
}
