// Package bucket owns the choice of where the content of files is stored: a folder of this machine, or a bucket of
// Amazon S3 and what speaks its protocol, Google Cloud Storage or Azure Blob Storage. What is stored there, and for how
// long, is package runtime/file's. It brings the clouds' libraries in, so only commands import it.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3://
)

// Open opens the store that location names: a URL as gocloud.dev/blob takes it (s3://bucket?region=…, gs://bucket,
// azblob://container, file:///folder), with the credentials that the cloud's own library finds in its surroundings.
// An empty location is the folder. Errors never hold what a URL says beyond its scheme and host.
func Open(ctx context.Context, location, folder string) (*blob.Bucket, error) {
	if location == "" {
		return openFolder(folder)
	}
	u, err := url.Parse(location)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("open file storage: want a URL like s3://bucket?region=…, gs://bucket, azblob://container or file:///folder")
	}
	if u.Scheme == fileblob.Scheme {
		if u.Host != "" || u.RawQuery != "" || !filepath.IsAbs(u.Path) {
			return nil, errors.New("open file storage: file: want file:// and an absolute path, and nothing else")
		}
		return openFolder(filepath.FromSlash(u.Path))
	}
	opened, err := blob.OpenBucket(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("open file storage %s: %w", Name(location), redact(err, location, u))
	}
	return opened, nil
}

// Name is what may be said of a location: scheme and host.
func Name(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Scheme == "" {
		return "a folder"
	}
	if u.Scheme == fileblob.Scheme {
		return "file://" + u.Path
	}
	return u.Scheme + "://" + u.Host
}

// openFolder makes the folder, for this server's eyes only. What a file is called and is, the database knows:
// beside the content nothing is written.
func openFolder(folder string) (*blob.Bucket, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("open file storage: %w", err)
	}
	opened, err := fileblob.OpenBucket(folder, &fileblob.Options{
		DirFileMode: 0o700, Metadata: fileblob.MetadataDontWrite,
		NoTempDir: true, // a finished file is renamed, which works within one file system only
	})
	if err != nil {
		return nil, fmt.Errorf("open file storage %s: %w", folder, err)
	}
	return opened, nil
}

// redactedError keeps what a location may hold out of an error's text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

// Is compares with the error itself; it is not unwrapped, for its text would come along.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }

func redact(err error, location string, u *url.URL) error {
	hidden := []string{location}
	if u.User != nil {
		hidden = append(hidden, u.User.String(), u.User.Username())
		if password, ok := u.User.Password(); ok {
			hidden = append(hidden, password)
		}
	}
	if u.RawQuery != "" {
		hidden = append(hidden, u.RawQuery)
	}
	for _, values := range u.Query() {
		hidden = append(hidden, values...)
	}
	text := err.Error()
	for _, secret := range hidden {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return &redactedError{text, err}
}
