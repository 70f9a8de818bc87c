package file

import (
	"bytes"
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
)

// download hands a file of a call to whoever has its URL, once the call was claimed for sending. Until then, and after its
// time, there is nothing here; nor is there for any other reason.
func (s *Service) download(w http.ResponseWriter, r *http.Request) {
	a, err := s.claimed(r.Context(), r.PathValue("call"), r.PathValue("file"), r.PathValue("capability"))
	if errors.Is(err, ErrNotFound) {
		s.Failures.Refuse(r.Context(), authfail.Files)
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return
	}
	if err != nil {
		s.Logger.Error("hand out file", "call", r.PathValue("call"), "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	s.Send(w, r, a)
}

// claimed finds the attached file that a URL opens now.
func (s *Service) claimed(ctx context.Context, callText, fileText, capability string) (Attached, error) {
	callID, err := uuid.Parse(callText)
	if err != nil {
		return Attached{}, ErrNotFound
	}
	fileID, err := uuid.Parse(fileText)
	if err != nil {
		return Attached{}, ErrNotFound
	}
	a, err := s.one(ctx, `c.call_id = $1 AND c.file_id = $2 AND c.capability_hash = $3`, callID, fileID, hashOf(capability))
	if err != nil {
		return Attached{}, err
	}
	open, err := s.Open(ctx, callID)
	if err == nil && !open {
		err = ErrNotFound
	}
	return a, err
}

// Send answers with a file, as a download that no browser shows or runs. What it sends is what was uploaded: if the store
// has something else, the connection is cut before its end. There are no ranges, for of a part nobody could tell.
func (s *Service) Send(w http.ResponseWriter, r *http.Request, a Attached) {
	_ = http.NewResponseController(w).SetWriteDeadline(s.Now().Add(downloadLimit)) // only servers of tests know no deadlines
	content, err := s.open(r.Context(), a.object, a.Size)
	if err != nil {
		s.Logger.Error("hand out file", "file", a.FileID, "error", err)
		status := http.StatusBadGateway
		if errors.Is(err, ErrChanged) {
			status = http.StatusGone
		}
		http.Error(w, "the content of this file cannot be had", status)
		return
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("Content-Disposition", disposition(a.Filename))
	h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "private, no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Accept-Ranges", "none")
	if r.Method == http.MethodHead {
		return
	}
	if err := copyWhole(w, content, a); err != nil {
		if r.Context().Err() == nil {
			s.Logger.Error("hand out file", "file", a.FileID, "error", err)
		}
		panic(http.ErrAbortHandler) // nobody takes what arrived for the whole
	}
}

// Content reads a whole file, which is what was uploaded: [ErrChanged] if the store has something else.
func (s *Service) Content(ctx context.Context, a Attached) ([]byte, error) {
	stored, err := s.open(ctx, a.object, a.Size)
	if err != nil {
		return nil, err
	}
	defer stored.Close()
	var content bytes.Buffer
	if err := copyWhole(&content, stored, a); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// disposition is that of RFC 6266; a name that is not plain ASCII is encoded by RFC 8187.
func disposition(filename string) string {
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": filename}); text != "" {
		return text
	}
	return "attachment"
}

const blockSize = 64 << 10

// copyWhole keeps the last block back until the SHA-256 of all is right.
func copyWhole(w io.Writer, content io.Reader, a Attached) error {
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
