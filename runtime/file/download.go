package file

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/inbound"
)

// handleDownload serves a file of a call that was claimed for sending. All other requests get the same 404.
func (s *Service) handleDownload(w http.ResponseWriter, r *http.Request) {
	a, err := s.findClaimed(r.Context(), r.PathValue("call"), r.PathValue("file"), r.PathValue("capability"))
	if errors.Is(err, ErrNotFound) {
		s.Failures.Refuse(r.Context(), authfail.Files)
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return
	}
	if err != nil {
		s.Logger.Error("send file", "call", r.PathValue("call"), "error", err)
		http.Error(w, "internal error", inbound.FailureStatus(w.Header(), err))
		return
	}
	s.Send(w, r, a)
}

// findClaimed returns the attached file that a URL opens now.
func (s *Service) findClaimed(ctx context.Context, callText, fileText, capability string) (Attached, error) {
	callID, err := uuid.Parse(callText)
	if err != nil {
		return Attached{}, ErrNotFound
	}
	fileID, err := uuid.Parse(fileText)
	if err != nil {
		return Attached{}, ErrNotFound
	}
	a, err := s.readAttached(ctx, `c.call_id = $1 AND c.file_id = $2 AND c.capability_hash = $3`, callID, fileID, hashCapability(capability))
	if err != nil {
		return Attached{}, err
	}
	open, err := s.Open(ctx, callID)
	if err == nil && !open {
		err = ErrNotFound
	}
	return a, err
}

// Send serves a file as a download that browsers neither show nor run. If the store has other content than was uploaded, Send
// cuts the connection before the end. It supports no ranges, because a part cannot be verified.
func (s *Service) Send(w http.ResponseWriter, r *http.Request, a Attached) {
	_ = http.NewResponseController(w).SetWriteDeadline(s.Now().Add(downloadLimit)) // an error means a server without deadlines, as in tests
	if a.IsDeleted() {
		http.Error(w, "the content of this file was deleted by age", http.StatusGone)
		return
	}
	content, err := s.objects.openObject(r.Context(), a.object, a.Size)
	if err != nil {
		s.Logger.Error("send file", "file", a.FileID, "error", err)
		status := http.StatusBadGateway
		if errors.Is(err, ErrChanged) {
			status = http.StatusGone
		}
		http.Error(w, "the content of this file is not available", status)
		return
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	// RFC 6266; RFC 8187 encodes names that are not ASCII.
	h.Set("Content-Disposition", cmp.Or(mime.FormatMediaType("attachment", map[string]string{"filename": a.Filename}), "attachment"))
	h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "private, no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Accept-Ranges", "none")
	if r.Method == http.MethodHead {
		return
	}
	if err := copyVerified(w, content, a); err != nil {
		if r.Context().Err() == nil {
			s.Logger.Error("send file", "file", a.FileID, "error", err)
		}
		panic(http.ErrAbortHandler) // the client must not take the part for the whole
	}
}

// Content reads a whole file. It returns [ErrChanged] if the store has other content than was uploaded.
func (s *Service) Content(ctx context.Context, a Attached) ([]byte, error) {
	stored, err := s.objects.openObject(ctx, a.object, a.Size)
	if err != nil {
		return nil, err
	}
	defer stored.Close()
	var content bytes.Buffer
	if err := copyVerified(&content, stored, a); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

const blockSize = 64 << 10

// copyVerified writes the last block only after the SHA-256 of all blocks matched.
func copyVerified(w io.Writer, content io.Reader, a Attached) error {
	hash := sha256.New()
	held, next := make([]byte, 0, blockSize), make([]byte, blockSize)
	for {
		n, err := io.ReadFull(content, next)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("read file from storage: %w", err)
		}
		hash.Write(next[:n])
		last := err != nil
		if last && !bytes.Equal(hash.Sum(nil), a.SHA256[:]) {
			return ErrChanged
		}
		if _, err := w.Write(held); err != nil {
			return err
		}
		held, next = next[:n], held[:blockSize]
		if last {
			_, err := w.Write(held)
			return err
		}
	}
}
