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
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	uploadPath   = "/files/upload/"
	downloadPath = "/files/"

	// Time limits of one upload and one download.
	uploadLimit   = 30 * time.Minute
	downloadLimit = time.Hour
)

// Mount adds the routes of uploads and downloads. Their URLs contain capabilities; no credential is needed.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.HandleFunc("PUT "+uploadPath+"{capability}", s.handleUpload)
	mux.HandleFunc("GET "+downloadPath+"{call}/{file}/{capability}", s.handleDownload)
}

// handleUpload stores the content of an announced file. It answers 201 with size and SHA-256; 404 for an unknown or expired
// URL; 409 if the file has its content; 413 if the content is larger than announced; 415 for another Content-Type, or any
// Content-Encoding; and 422 if the content is shorter or has another SHA-256, in which case the upload may be repeated.
func (s *Service) handleUpload(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), uploadLimit)
	defer cancel()
	f, err := s.findAnnounced(ctx, r.PathValue("capability"))
	if errors.Is(err, ErrNotFound) {
		s.Failures.Refuse(ctx, authfail.Files)
	}
	if err == nil {
		err = checkUpload(r, f)
	}
	if err == nil {
		f, err = s.storeUpload(ctx, w, r, f)
	}
	if err != nil {
		s.writeProblem(w, r, err)
		return
	}
	s.writeJSON(w, http.StatusCreated, "application/json", uploadReceipt{f.ID, f.Size, hex.EncodeToString(f.SHA256)})
}

// findAnnounced returns the file that may be uploaded with a capability.
func (s *Service) findAnnounced(ctx context.Context, capability string) (File, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE upload_hash = $1
		AND (uploaded_at IS NOT NULL OR upload_until > holdpoint_now())`, hashCapability(capability))
	f, err := collectFile(rows, uuid.Nil)
	if err == nil && f.UploadedAt != nil {
		err = ErrUploaded
	}
	return f, err
}

// checkUpload compares a request's headers with the announcement.
func checkUpload(r *http.Request, f File) error {
	if declared := r.Header.Get("Content-Type"); declared != "" {
		media, _, err := mime.ParseMediaType(declared)
		announced, _, _ := mime.ParseMediaType(f.ContentType)
		if err != nil || media != announced {
			return &RefusedError{WrongType, "content_type", "must be " + f.ContentType + ", as announced"}
		}
	}
	if encodings := r.Header.Values("Content-Encoding"); len(encodings) > 0 && !slices.Equal(encodings, []string{"identity"}) {
		return &RefusedError{WrongType, "content_encoding", "must be left out: send the content as it is"}
	}
	switch {
	case r.ContentLength > f.Size:
		return newTooLargeError(f.Size)
	case r.ContentLength >= 0 && r.ContentLength < f.Size:
		return &RefusedError{Invalid, "content", fmt.Sprintf("must be %d bytes, as announced", f.Size)}
	}
	return nil
}

func newTooLargeError(size int64) error {
	return &RefusedError{TooLarge, "content", fmt.Sprintf("must be %d bytes, as announced, and no more", size)}
}

// storeUpload streams the body into the store. Of several uploads at once, the first to finish wins.
func (s *Service) storeUpload(ctx context.Context, w http.ResponseWriter, r *http.Request, f File) (File, error) {
	o, err := s.objects.putObject(ctx, f.ID, http.MaxBytesReader(w, r.Body, f.Size), f.Size)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		err = newTooLargeError(f.Size)
	}
	if err == nil && f.declared != nil && [32]byte(f.declared) != o.sum {
		err = &RefusedError{Invalid, "sha256", "the content has another SHA-256 than was announced"}
	}
	if err == nil {
		err = s.recordUpload(ctx, f, o)
	}
	if err != nil {
		// If this fails, the sweep job deletes the object.
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if dropErr := s.objects.dropObject(drop, o.object); dropErr != nil {
			s.Logger.Warn("object of a failed upload not deleted", "file", f.ID, "error", dropErr)
		}
		return f, err
	}
	f.SHA256 = o.sum[:]
	return f, nil
}

// recordUpload makes an object the content of its file, unless the file has one.
func (s *Service) recordUpload(ctx context.Context, f File, o storedObject) error {
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
			Actor: by, Action: audit.FileUploaded, Subject: f.ID,
			Data: map[string]any{"size": f.Size, "sha256": hex.EncodeToString(o.sum[:])},
		})
	})
	if err != nil {
		return fmt.Errorf("record upload of file %s: %w", f.ID, err)
	}
	return nil
}

type uploadReceipt struct {
	FileID uuid.UUID `json:"file_id"`
	Size   int64     `json:"size"`
	SHA256 string    `json:"sha256"`
}

// writeProblem answers with a problem document (RFC 9457).
func (s *Service) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	status, code, detail := http.StatusInternalServerError, "internal", fault.InternalText
	var refused *RefusedError
	switch {
	case errors.Is(err, ErrNotFound):
		status, code, detail = http.StatusNotFound, "not_found", "the upload URL is unknown or has expired"
	case errors.Is(err, ErrUploaded):
		status, code, detail = http.StatusConflict, "already_uploaded", "the file was uploaded before"
	case errors.As(err, &refused):
		status, code = refused.Reason.Status()
		detail = refused.Error()
	case r.Context().Err() != nil:
		s.Logger.Debug("upload broke off", "error", err)
	default:
		if status = inbound.FailureStatus(w.Header(), err); status == http.StatusServiceUnavailable {
			code, detail = "database_unavailable", "the database is not available at present: try again"
		}
		s.Logger.Error("store upload", "error", err)
	}
	s.writeJSON(w, status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, code, detail})
}

func (s *Service) writeJSON(w http.ResponseWriter, status int, contentType string, what any) {
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

// Status returns the HTTP status and the stable code of a reason.
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
