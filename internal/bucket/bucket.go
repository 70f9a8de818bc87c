// Package bucket opens the store of attached files: a folder of this machine, or a bucket of Amazon S3 (or a compatible
// store), Google Cloud Storage or Azure Blob Storage. Only a build with the tag "cloud" has the clients of Google and Azure.
// Package runtime/file owns the files and their lifetime.
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
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // s3://

	"github.com/holdpoint/holdpoint/internal/buildtag"
)

// Check returns an error if this build cannot open a location. It does not connect. An empty location is the folder. Of a
// URL, the error contains only the scheme.
func Check(location string) error {
	if location == "" {
		return nil
	}
	_, err := parseLocation(location)
	return err
}

func parseLocation(location string) (*url.URL, error) {
	u, err := url.Parse(location)
	switch {
	case err != nil || u.Scheme == "":
		return nil, errors.New("must be a URL like s3://bucket?region=…, gs://bucket, azblob://container or file:///folder")
	case u.Scheme == fileblob.Scheme:
		if u.Host != "" || u.RawQuery != "" || !filepath.IsAbs(u.Path) {
			return nil, errors.New("file: must be file:// and an absolute path, and nothing else")
		}
	case blob.DefaultURLMux().ValidBucketScheme(u.Scheme):
	case u.Scheme == "gs" || u.Scheme == "azblob":
		return nil, &buildtag.MissingError{Scheme: u.Scheme}
	default:
		return nil, fmt.Errorf("no file storage is known for %s:// URLs", u.Scheme)
	}
	return u, nil
}

// Open opens the store at a location: a URL for gocloud.dev/blob (s3://bucket?region=…, gs://bucket,
// azblob://container, file:///folder), with the credentials that the cloud's own library finds in its environment.
// An empty location is the folder. Of a URL, errors contain only the scheme and the host.
func Open(ctx context.Context, location, folder string) (*blob.Bucket, error) {
	if location == "" {
		return openFolder(folder)
	}
	u, err := parseLocation(location)
	if err != nil {
		return nil, fmt.Errorf("open file storage: %w", err)
	}
	if u.Scheme == fileblob.Scheme {
		return openFolder(filepath.FromSlash(u.Path))
	}
	opened, err := blob.OpenBucket(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("open file storage %s: %w", Name(location), redactError(err, location, u))
	}
	return opened, nil
}

// Name returns the scheme and host of a location, which may be shown.
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

// openFolder makes the folder readable by this account only. It stores the content of files and nothing else; the database
// has their names and types.
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

// redactedError is an error without the confidential parts of a location.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

// Is compares the original error. Unwrap is missing on purpose: it would reveal the original text.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }

func redactError(err error, location string, u *url.URL) error {
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
