// Package file owns the files that agents attach to calls. An agent announces a file, uploads it once and attaches it; the
// skill's server and reviewers download it. The package owns the tables files, file_objects and call_files, the objects in the
// store, and the River job that deletes unattached files. Package call decides when a call's files may be downloaded.
package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"gocloud.dev/blob"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/fault"
)

// The defaults of [Config].
const (
	DefaultMaxSize        = 25 << 20         // bytes
	DefaultUploadLifetime = 15 * time.Minute // of an upload URL
)

// MaxAttached bounds the files of a call.
const MaxAttached = 20

// maxUnattached bounds the files of an agent that are not attached to a call. They are deleted after a day.
const maxUnattached = 500

// Config configures a [Service]. Fields without a default are required.
type Config struct {
	Pool      *pgxpool.Pool
	Bucket    *blob.Bucket // holds the content; [Service.Close] closes it
	PublicURL string       // the address of this server for agents and skill servers
	Logger    *slog.Logger
	Now       func() time.Time // bounds the time of uploads and downloads only

	// Open reports whether a call was claimed for sending a short while ago. Only then may the skill's server download its
	// files.
	Open func(ctx context.Context, callID uuid.UUID) (bool, error)

	// Failures counts requests with unknown capabilities. Nil: they are not counted.
	Failures *authfail.Log

	// MaxSize bounds a file, in bytes. Zero: [DefaultMaxSize].
	MaxSize int64
	// Types are the permitted media types: type/subtype or type/*. Empty: all.
	Types []string
	// UploadLifetime is how long an upload URL is valid. Zero: [DefaultUploadLifetime].
	UploadLifetime time.Duration
}

// Service manages the files of all agents.
type Service struct {
	Config
	objects objectStore
}

// New makes a service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Bucket == nil || cfg.PublicURL == "" || cfg.Logger == nil || cfg.Now == nil || cfg.Open == nil {
		return nil, errors.New("make file service: Pool, Bucket, PublicURL, Logger, Now and Open are required")
	}
	if cfg.MaxSize == 0 {
		cfg.MaxSize = DefaultMaxSize
	}
	if cfg.UploadLifetime == 0 {
		cfg.UploadLifetime = DefaultUploadLifetime
	}
	if cfg.MaxSize < 0 || cfg.UploadLifetime < 0 {
		return nil, errors.New("make file service: MaxSize and UploadLifetime: must be positive")
	}
	for _, allowed := range cfg.Types {
		if err := CheckTypePattern(allowed); err != nil {
			return nil, fmt.Errorf("make file service: %w", err)
		}
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	return &Service{cfg, objectStore{cfg.Pool, cfg.Bucket}}, nil
}

// Close closes the store.
func (s *Service) Close() error {
	if err := s.Bucket.Close(); err != nil {
		return fmt.Errorf("close file storage: %w", err)
	}
	return nil
}

// Owner is an agent that acts for a principal, or for none. A file exists only for its owner.
type Owner struct {
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: none
}

// File is an announced file. It may be uploaded.
type File struct {
	ID          uuid.UUID
	Owner       Owner
	Filename    string
	ContentType string
	Size        int64 // bytes
	SHA256      []byte
	CreatedAt   time.Time
	UploadUntil time.Time
	UploadedAt  *time.Time // nil: not uploaded
	AttachedAt  *time.Time // nil: not attached

	declared []byte // SHA-256, if one was declared
	object   string
}

// Errors of this package.
var (
	// ErrNotFound: the file does not exist, or has another owner.
	ErrNotFound = fault.NotFound("file not found")
	// ErrUploaded: the file has its content already.
	ErrUploaded = errors.New("the file was uploaded before")
	// ErrAttached: a call has the file, so it cannot be deleted.
	ErrAttached = errors.New("the file is attached to a call")
	// ErrTooMany: the agent has too many unattached files.
	ErrTooMany = errors.New("too many files that are attached to no call")
	// ErrChanged: the stored content is not the uploaded content.
	ErrChanged = errors.New("the stored file is not the one that was uploaded")
)

// Reason is the kind of a refusal.
type Reason int

// The reasons, with their HTTP status.
const (
	Invalid  Reason = iota // 422
	TooLarge               // 413
	WrongType
)

// RefusedError reports an invalid file or announcement.
type RefusedError struct {
	Reason   Reason
	Field    string // of the request: filename, content_type, size, sha256 or content
	Expected string
}

func (e *RefusedError) Error() string { return e.Field + ": " + e.Expected }

// CheckTypePattern validates one of [Config.Types].
func CheckTypePattern(pattern string) error {
	media, params, err := mime.ParseMediaType(pattern)
	if err != nil || len(params) > 0 || media != pattern || strings.Count(media, "/") != 1 || strings.HasPrefix(media, "*") {
		return fmt.Errorf("file type %q: must be type/subtype or type/* in lower case, without parameters", pattern)
	}
	return nil
}

const (
	maxFilename    = 255 // bytes
	maxContentType = 255
)

// checkFilename refuses names with a path or control characters. Names are not paths here, but may become paths elsewhere.
func checkFilename(name string) error {
	if name == "" || len(name) > maxFilename || name == "." || name == ".." || strings.ContainsFunc(name, isForbiddenInNames) ||
		strings.TrimSpace(name) != name {
		return &RefusedError{Invalid, "filename", fmt.Sprintf("must be the name of a file, of at most %d bytes, without a path and without control characters", maxFilename)}
	}
	return nil
}

// isForbiddenInNames also refuses U+FFFD, which replaces invalid bytes.
func isForbiddenInNames(r rune) bool {
	return r == '/' || r == '\\' || r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\uFFFD'
}

// checkType returns a declared media type in its canonical form. The content is not examined.
func (s *Service) checkType(declared string) (string, error) {
	media, params, err := mime.ParseMediaType(declared)
	if err != nil || len(declared) > maxContentType || strings.Count(media, "/") != 1 || strings.ContainsFunc(declared, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", &RefusedError{Invalid, "content_type", "must be a media type like application/pdf"}
	}
	canonical := mime.FormatMediaType(media, params)
	if canonical == "" {
		return "", &RefusedError{Invalid, "content_type", "must be a media type like application/pdf"}
	}
	kind, _, _ := strings.Cut(media, "/")
	if len(s.Types) > 0 && !slices.Contains(s.Types, media) && !slices.Contains(s.Types, kind+"/*") {
		return "", &RefusedError{WrongType, "content_type", "must be one of " + strings.Join(s.Types, ", ")}
	}
	return canonical, nil
}

// newCapability returns a random capability of 130 bits, and its hash, which is stored.
func newCapability() (text string, hash []byte) {
	text = rand.Text()
	return text, hashCapability(text)
}

func hashCapability(capability string) []byte {
	sum := sha256.Sum256([]byte(capability))
	return sum[:]
}
