package file

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	uploadPath   = "/files/upload/"
	downloadPath = "/files/"

	// How long one upload, or one download, may take.
	uploadLimit   = 30 * time.Minute
	downloadLimit = time.Hour
)

// Mount adds the addresses that are known only to whom they were given. No credential opens them, and none is needed.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.HandleFunc("PUT "+uploadPath+"{capability}", s.upload)
	mux.HandleFunc("GET "+downloadPath+"{call}/{file}/{capability}", s.download)
}

// upload takes the content of an announced file.
//
//	201  it is stored; the body says how large it is, and its SHA-256
//	404  nothing was announced here, or its time is up
//	409  it was uploaded before
//	413  larger than announced
//	415  another Content-Type than announced, or a Content-Encoding
//	422  shorter than announced, or with another SHA-256; it may be tried again
func (s *Service) upload(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), uploadLimit)
	defer cancel()
	f, err := s.awaited(ctx, r.PathValue("capability"))
	if errors.Is(err, ErrNotFound) {
		s.Failures.Refuse(ctx, authfail.Files)
	}
	if err == nil {
		err = checkUpload(r, f)
	}
	if err == nil {
		f, err = s.receive(ctx, w, r, f)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.say(w, http.StatusCreated, "application/json", receipt{f.ID, f.Size, hex.EncodeToString(f.SHA256)})
}

// awaited finds the file that may be uploaded with a capability.
func (s *Service) awaited(ctx context.Context, capability string) (File, error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE upload_hash = $1
		AND (uploaded_at IS NOT NULL OR upload_until > holdpoint_now())`, hashOf(capability))
	if err != nil {
		return File{}, fmt.Errorf("find announced file: %w", err)
	}
	f, err := collectFile(rows, uuid.Nil)
	if err == nil && f.UploadedAt != nil {
		err = ErrUploaded
	}
	return f, err
}

// checkUpload compares what a request says of its body with what was announced.
func checkUpload(r *http.Request, f File) error {
	if declared := r.Header.Get("Content-Type"); declared != "" {
		media, _, err := mime.ParseMediaType(declared)
		announced, _, _ := mime.ParseMediaType(f.ContentType)
		if err != nil || media != announced {
			return &RefusedError{WrongType, "content_type", "want " + f.ContentType + ", as announced"}
		}
	}
	if encodings := r.Header.Values("Content-Encoding"); len(encodings) > 0 && !slices.Equal(encodings, []string{"identity"}) {
		return &RefusedError{WrongType, "content_encoding", "want the content as it is"}
	}
	switch {
	case r.ContentLength > f.Size:
		return tooLarge(f.Size)
	case r.ContentLength >= 0 && r.ContentLength < f.Size:
		return &RefusedError{Invalid, "content", fmt.Sprintf("want %d bytes, as announced", f.Size)}
	}
	return nil
}

func tooLarge(size int64) error {
	return &RefusedError{TooLarge, "content", fmt.Sprintf("want %d bytes, as announced, and no more", size)}
}

// receive streams the body into the store. Of uploads at the same time the first that ends is the one.
func (s *Service) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, f File) (File, error) {
	o, err := s.put(ctx, f.ID, http.MaxBytesReader(w, r.Body, f.Size), f.Size)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		err = tooLarge(f.Size)
	}
	if err == nil && f.declared != nil && [32]byte(f.declared) != o.sum {
		err = &RefusedError{Invalid, "sha256", "the content has another SHA-256 than was announced"}
	}
	if err == nil {
		err = s.uploaded(ctx, f, o)
	}
	if err != nil {
		// Whoever waits is told first; what stays if this fails is swept away later.
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if dropErr := s.drop(drop, o.object); dropErr != nil {
			s.Logger.Warn("an upload that failed left something behind", "file", f.ID, "error", dropErr)
		}
		return f, err
	}
	f.SHA256 = o.sum[:]
	return f, nil
}

// uploaded makes an object the content of its file, unless it has one.
func (s *Service) uploaded(ctx context.Context, f File, o stored) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE files SET uploaded_at = holdpoint_now(), object = $2, sha256 = $3
			WHERE id = $1 AND uploaded_at IS NULL`, f.ID, o.object, o.sum[:])
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			var there bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM files WHERE id = $1)`, f.ID).Scan(&there); err != nil {
				return err
			}
			if there {
				return ErrUploaded
			}
			return ErrNotFound
		}
		by := audit.Agent(f.Owner.AgentID)
		if f.Owner.PrincipalID != uuid.Nil {
			by = audit.Person(f.Owner.PrincipalID)
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: "file.uploaded", Subject: f.ID,
			Data: map[string]any{"size": f.Size, "sha256": hex.EncodeToString(o.sum[:])},
		})
	})
	if err != nil {
		return fmt.Errorf("keep uploaded file %s: %w", f.ID, err)
	}
	return nil
}

type receipt struct {
	FileID uuid.UUID `json:"file_id"`
	Size   int64     `json:"size"`
	SHA256 string    `json:"sha256"`
}

type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// refuse answers with a problem (RFC 9457).
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, code, detail := http.StatusInternalServerError, "internal", "something went wrong here; the server's log says what"
	var refused *RefusedError
	switch {
	case errors.Is(err, ErrNotFound):
		status, code, detail = http.StatusNotFound, "not_found", "nothing is expected at this address, or its time is up"
	case errors.Is(err, ErrUploaded):
		status, code, detail = http.StatusConflict, "already_uploaded", "the file was uploaded before"
	case errors.As(err, &refused):
		status, code = refused.Reason.Status()
		detail = refused.Error()
	case r.Context().Err() != nil:
		s.Logger.Debug("upload broke off", "error", err)
	default:
		s.Logger.Error("take upload", "error", err)
	}
	s.say(w, status, "application/problem+json", problem{http.StatusText(status), status, code, detail})
}

func (s *Service) say(w http.ResponseWriter, status int, contentType string, what any) {
	body, err := json.Marshal(what)
	if err != nil {
		s.Logger.Error("answer upload", "error", err)
		status = http.StatusInternalServerError
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// Status is the HTTP status of a reason, and its stable code.
func (r Reason) Status() (status int, code string) {
	switch r {
	case TooLarge:
		return http.StatusRequestEntityTooLarge, "too_large"
	case WrongType:
		return http.StatusUnsupportedMediaType, "unsupported_type"
	default:
		return http.StatusUnprocessableEntity, "invalid_request"
	}
}
