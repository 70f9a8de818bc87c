package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// stored is an object that was written, and read again.
type stored struct {
	object string
	sum    [sha256.Size]byte
}

// put streams content into an object of its own. Two uploads of one file do not meet in the store.
// What it leaves behind when it fails is noted, and deleted.
func (s *Service) put(ctx context.Context, id uuid.UUID, content io.Reader, size int64) (stored, error) {
	o := stored{object: id.String() + "-" + rand.Text()}
	if _, err := s.Pool.Exec(ctx, `INSERT INTO file_objects (object, file_id) VALUES ($1, $2)`, o.object, id); err != nil {
		return o, fmt.Errorf("note object: %w", err)
	}
	n, sum, err := s.write(ctx, o.object, content)
	if err != nil {
		return o, err
	}
	if n != size {
		return o, &RefusedError{Invalid, "content", fmt.Sprintf("want %d bytes, as declared; %d arrived", size, n)}
	}
	if o.sum, err = s.sum(ctx, o.object, size); err != nil {
		return o, err
	}
	if o.sum != sum {
		return o, fmt.Errorf("store file %s: %w", id, ErrChanged)
	}
	return o, nil
}

func (s *Service) write(ctx context.Context, object string, content io.Reader) (n int64, sum [sha256.Size]byte, err error) {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	writer, err := s.Bucket.NewWriter(ctx, object, &blob.WriterOptions{
		ContentType: "application/octet-stream", DisableContentTypeDetection: true,
	})
	if err != nil {
		return 0, sum, fmt.Errorf("store file: %w", err)
	}
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(writer, hash), content)
	if err != nil {
		abort() // what was written so far does not become an object
		return n, sum, errors.Join(err, ignoreCancelled(writer.Close()))
	}
	if err := writer.Close(); err != nil {
		return n, sum, fmt.Errorf("store file: %w", err)
	}
	return n, [sha256.Size]byte(hash.Sum(nil)), nil
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) || gcerrors.Code(err) == gcerrors.Canceled {
		return nil
	}
	return err
}

// sum reads an object whole. ErrChanged: it is not there, or not of that size.
func (s *Service) sum(ctx context.Context, object string, size int64) (sum [sha256.Size]byte, err error) {
	reader, err := s.open(ctx, object, size)
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

// open begins to read an object. ErrChanged: likewise.
func (s *Service) open(ctx context.Context, object string, size int64) (*blob.Reader, error) {
	reader, err := s.Bucket.NewReader(ctx, object, nil)
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

// there reports whether an object is in the store, and as large as it was.
func (s *Service) there(ctx context.Context, object string, size int64) (bool, error) {
	attributes, err := s.Bucket.Attributes(ctx, object)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for file in storage: %w", err)
	}
	return attributes.Size == size, nil
}

// drop deletes an object, and then what was noted of it.
func (s *Service) drop(ctx context.Context, object string) error {
	if err := s.Bucket.Delete(ctx, object); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("delete object %s: %w", object, err)
	}
	if _, err := s.Pool.Exec(ctx, `DELETE FROM file_objects WHERE object = $1`, object); err != nil {
		return fmt.Errorf("forget object %s: %w", object, err)
	}
	return nil
}
