package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// objectStore holds the content of files. It inserts each object's name into file_objects before it writes the object, so that
// no object is forgotten.
type objectStore struct {
	pool   *pgxpool.Pool
	bucket *blob.Bucket
}

// storedObject is an object that was written and read back.
type storedObject struct {
	object string
	sum    [sha256.Size]byte
}

// putObject streams content into a new object, so that two uploads of one file do not collide. After an error, dropOrphans
// deletes the object.
func (s *objectStore) putObject(ctx context.Context, id uuid.UUID, content io.Reader, size int64) (storedObject, error) {
	o := storedObject{object: id.String() + "-" + rand.Text()}
	if _, err := s.pool.Exec(ctx, `INSERT INTO file_objects (object, file_id) VALUES ($1, $2)`, o.object, id); err != nil {
		return o, fmt.Errorf("note object: %w", err)
	}
	n, sum, err := s.writeObject(ctx, o.object, content)
	if err != nil {
		return o, err
	}
	if n != size {
		return o, &RefusedError{Invalid, "content", fmt.Sprintf("must be %d bytes, as declared; %d arrived", size, n)}
	}
	if o.sum, err = s.sumObject(ctx, o.object, size); err != nil {
		return o, err
	}
	if o.sum != sum {
		return o, fmt.Errorf("store file %s: %w", id, ErrChanged)
	}
	return o, nil
}

func (s *objectStore) writeObject(ctx context.Context, object string, content io.Reader) (n int64, sum [sha256.Size]byte, err error) {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	writer, err := s.bucket.NewWriter(ctx, object, &blob.WriterOptions{
		ContentType: "application/octet-stream", DisableContentTypeDetection: true,
	})
	if err != nil {
		return 0, sum, fmt.Errorf("store file: %w", err)
	}
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(writer, hash), content)
	if err != nil {
		abort() // the content so far does not become an object
		closeErr := writer.Close()
		if errors.Is(closeErr, context.Canceled) || gcerrors.Code(closeErr) == gcerrors.Canceled {
			closeErr = nil
		}
		return n, sum, errors.Join(err, closeErr)
	}
	if err := writer.Close(); err != nil {
		return n, sum, fmt.Errorf("store file: %w", err)
	}
	return n, [sha256.Size]byte(hash.Sum(nil)), nil
}

// sumObject reads an object and returns its SHA-256. It returns ErrChanged if the object is missing or has another size.
func (s *objectStore) sumObject(ctx context.Context, object string, size int64) (sum [sha256.Size]byte, err error) {
	reader, err := s.openObject(ctx, object, size)
	if err != nil {
		return sum, err
	}
	defer reader.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, reader); err != nil {
		return sum, fmt.Errorf("read file from storage: %w", err)
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

// openObject opens an object. Errors as of sumObject.
func (s *objectStore) openObject(ctx context.Context, object string, size int64) (*blob.Reader, error) {
	if object == "" {
		return nil, fmt.Errorf("%w: its content was deleted by age", ErrChanged)
	}
	reader, err := s.bucket.NewReader(ctx, object, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%w: it is gone", ErrChanged)
	}
	if err != nil {
		return nil, fmt.Errorf("read file from storage: %w", err)
	}
	if reader.Size() != size {
		defer reader.Close()
		return nil, fmt.Errorf("%w: %d bytes", ErrChanged, reader.Size())
	}
	return reader, nil
}

// hasObject reports whether an object of this size exists.
func (s *objectStore) hasObject(ctx context.Context, object string, size int64) (bool, error) {
	if object == "" {
		return false, nil
	}
	attributes, err := s.bucket.Attributes(ctx, object)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for file in storage: %w", err)
	}
	return attributes.Size == size, nil
}

// dropObject deletes an object, and then its row.
func (s *objectStore) dropObject(ctx context.Context, object string) error {
	if err := s.bucket.Delete(ctx, object); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("delete object %s: %w", object, err)
	}
	if _, err := s.pool.Exec(ctx, `DELETE FROM file_objects WHERE object = $1`, object); err != nil {
		return fmt.Errorf("forget object %s: %w", object, err)
	}
	return nil
}

// dropOrphans deletes objects that no file uses and that match a condition on $1.
func (s *objectStore) dropOrphans(ctx context.Context, condition string, arg any) error {
	for {
		rows, _ := s.pool.Query(ctx, `SELECT object FROM file_objects o
			WHERE NOT EXISTS (SELECT FROM files f WHERE f.id = o.file_id AND f.object = o.object) AND `+condition+`
			ORDER BY created_at LIMIT $2`, arg, sweepAtOnce)
		objects, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("find objects of no file: %w", err)
		}
		var failures error
		for _, object := range objects {
			failures = errors.Join(failures, s.dropObject(ctx, object))
		}
		if failures != nil || len(objects) < sweepAtOnce {
			return failures
		}
	}
}
