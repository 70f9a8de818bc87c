// Package file owns what agents attach to calls: files that are announced, uploaded once, attached, and handed out to
// the skill's server and to reviewers. It owns the tables files, file_objects and call_files, the objects in the store,
// and the River job that deletes what nobody attached. Whether a call was approved is package call's; this one is told.
package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"gocloud.dev/blob"

	"github.com/holdpoint/holdpoint/internal/authfail"
)

// The defaults of [Config].
const (
	DefaultMaxSize        = 25 << 20         // bytes
	DefaultUploadLifetime = 15 * time.Minute // of an upload URL
)

// MaxAttached is how many files a call may have.
const MaxAttached = 20

// maxUnattached is how many files an agent may have that no call has: what is uploaded and never used is deleted a day later.
const maxUnattached = 500

// Config is what a [Service] is made of. Fields without a default are required.
type Config struct {
	Pool      *pgxpool.Pool
	Bucket    *blob.Bucket // where the content is; [Service.Close] closes it
	PublicURL string       // where agents and skill servers reach this server
	Logger    *slog.Logger
	Now       func() time.Time // bounds how long an upload or a download may take, nothing that decides

	// Open reports whether a call was claimed for sending, and not too long ago: only then its server gets its files.
	Open func(ctx context.Context, callID uuid.UUID) (bool, error)

	// Failures takes notice of URLs that open nothing. Nil: nobody does.
	Failures *authfail.Log

	// MaxSize bounds a file, in bytes. Zero: [DefaultMaxSize].
	MaxSize int64
	// Types are the media types that files may have: type/subtype, or type/*. Empty: all.
	Types []string
	// UploadLifetime is for how long an upload URL can be used. Zero: [DefaultUploadLifetime].
	UploadLifetime time.Duration
}

// Service is the files of all agents.
type Service struct{ Config }

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
		return nil, errors.New("make file service: MaxSize and UploadLifetime: want more than nothing")
	}
	for _, allowed := range cfg.Types {
		if err := CheckTypePattern(allowed); err != nil {
			return nil, fmt.Errorf("make file service: %w", err)
		}
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	return &Service{cfg}, nil
}

// Close lets go of the store.
func (s *Service) Close() error {
	if err := s.Bucket.Close(); err != nil {
		return fmt.Errorf("close file storage: %w", err)
	}
	return nil
}

// Owner is whose a file is: an agent's that acts for a person, or for nobody. To all others it does not exist.
type Owner struct {
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: none
}

// File is what an agent announced, and perhaps uploaded.
type File struct {
	ID          uuid.UUID
	Owner       Owner
	Filename    string
	ContentType string
	Size        int64 // bytes; as declared, and as uploaded
	SHA256      []byte
	CreatedAt   time.Time
	UploadUntil time.Time
	UploadedAt  *time.Time // nil: not yet
	AttachedAt  *time.Time // nil: to no call yet

	declared []byte // SHA-256, where one was declared
	object   string
}

// Errors of this package.
var (
	// ErrNotFound: there is no such file, or it is somebody else's.
	ErrNotFound = errors.New("file not found")
	// ErrUploaded: it was uploaded before.
	ErrUploaded = errors.New("the file was uploaded before")
	// ErrAttached: a call has it, and keeps it.
	ErrAttached = errors.New("the file is attached to a call")
	// ErrTooMany: the agent has as many files as it may that no call has.
	ErrTooMany = errors.New("too many files that are attached to no call")
	// ErrChanged: what is stored is not what was uploaded.
	ErrChanged = errors.New("the stored file is not the one that was uploaded")
)

// Reason is why something is refused.
type Reason int

// The reasons, as HTTP has them.
const (
	Invalid  Reason = iota // 422
	TooLarge               // 413
	WrongType
)

// RefusedError says what is wrong with a file, or with what is said of it.
type RefusedError struct {
	Reason   Reason
	Field    string // of the request: filename, content_type, size, sha256, or content for the content itself
	Expected string
}

func (e *RefusedError) Error() string { return e.Field + ": " + e.Expected }

// CheckTypePattern says what is wrong with one of [Config.Types].
func CheckTypePattern(pattern string) error {
	media, params, err := mime.ParseMediaType(pattern)
	if err != nil || len(params) > 0 || media != pattern || strings.Count(media, "/") != 1 || strings.HasPrefix(media, "*") {
		return fmt.Errorf("file type %q: want type/subtype or type/* in lower case, without parameters", pattern)
	}
	return nil
}

const (
	maxFilename    = 255 // bytes
	maxContentType = 255
)

// checkFilename refuses what is no name of a file by itself: it is never a path here, but may become one elsewhere.
func checkFilename(name string) error {
	if name == "" || len(name) > maxFilename || name == "." || name == ".." || strings.ContainsFunc(name, notInNames) ||
		strings.TrimSpace(name) != name {
		return &RefusedError{Invalid, "filename", fmt.Sprintf("want the name of a file, of at most %d bytes, without a path and without control characters", maxFilename)}
	}
	return nil
}

// notInNames also refuses the replacement that stands for invalid bytes.
func notInNames(r rune) bool {
	return r == '/' || r == '\\' || r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\uFFFD'
}

// checkType returns a media type in its canonical form. It is what was declared; content is never guessed at.
func (s *Service) checkType(declared string) (string, error) {
	media, params, err := mime.ParseMediaType(declared)
	if err != nil || len(declared) > maxContentType || strings.Count(media, "/") != 1 || strings.ContainsFunc(declared, notPrintable) {
		return "", &RefusedError{Invalid, "content_type", "want a media type like application/pdf"}
	}
	canonical := mime.FormatMediaType(media, params)
	if canonical == "" {
		return "", &RefusedError{Invalid, "content_type", "want a media type like application/pdf"}
	}
	if !s.allows(media) {
		return "", &RefusedError{WrongType, "content_type", "want one of " + strings.Join(s.Types, ", ")}
	}
	return canonical, nil
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

func (s *Service) allows(media string) bool {
	if len(s.Types) == 0 {
		return true
	}
	kind, _, _ := strings.Cut(media, "/")
	for _, allowed := range s.Types {
		if allowed == media || allowed == kind+"/*" {
			return true
		}
	}
	return false
}

// newCapability makes what nobody guesses (130 bits), and what is stored of it.
func newCapability() (text string, hash []byte) {
	text = rand.Text()
	return text, hashOf(text)
}

func hashOf(capability string) []byte {
	sum := sha256.Sum256([]byte(capability))
	return sum[:]
}
