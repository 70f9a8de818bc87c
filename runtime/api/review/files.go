package review

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/file"
)

type fileHandlers struct{ *callHandlers }

// AttachedFile is a file that is attached to a call.
type AttachedFile struct {
	FileID      uuid.UUID `json:"file_id" format:"uuid"`
	Filename    string    `json:"filename"`
	ContentType string    `json:"content_type" doc:"As declared; the content was not inspected."`
	Size        int64     `json:"size" doc:"Bytes."`
	SHA256      string    `json:"sha256" doc:"SHA-256 of the content, in hex."`
	Deleted     bool      `json:"deleted,omitempty" doc:"The content was deleted by age."`
}

func attachedFiles(files []file.Attached) []AttachedFile {
	list := make([]AttachedFile, 0, len(files))
	for i := range files {
		f := &files[i]
		list = append(list, AttachedFile{f.FileID, f.Filename, f.ContentType, f.Size, hex.EncodeToString(f.SHA256[:]), f.IsDeleted()})
	}
	return list
}

// File is an announced file, which may be uploaded.
type File struct {
	ID          uuid.UUID  `json:"file_id" format:"uuid"`
	Filename    string     `json:"filename"`
	ContentType string     `json:"content_type"`
	Size        int64      `json:"size" doc:"Bytes."`
	SHA256      *string    `json:"sha256" doc:"SHA-256 of the content, in hex; null until it is uploaded."`
	CreatedAt   time.Time  `json:"created_at"`
	UploadedAt  *time.Time `json:"uploaded_at"`
	AttachedAt  *time.Time `json:"attached_at" doc:"When it was first attached to a call; it is kept from then on. Files without a call are deleted after a day."`
}

// PresignedUpload is the address for one upload.
type PresignedUpload struct {
	FileID    uuid.UUID         `json:"file_id" format:"uuid" doc:"The id for the attachments of a tool's arguments, once it is uploaded."`
	UploadURL string            `json:"upload_url" doc:"Allows one upload without a credential: keep it secret."`
	Method    string            `json:"method" enum:"PUT"`
	Headers   map[string]string `json:"headers" doc:"Send these headers with the content."`
	ExpiresAt time.Time         `json:"expires_at"`
	MaxBytes  int64             `json:"max_bytes" doc:"The maximum size of the content: the announced size."`
}

var errNoFiles = rest.NewProblem(http.StatusServiceUnavailable, rest.CodeNotAvailable, "this server has no storage for files")

type presignInput struct {
	Body struct {
		Agent       string `json:"agent,omitempty" doc:"The agent to act as; required for people."`
		Filename    string `json:"filename" doc:"A name without a path, at most 255 bytes."`
		ContentType string `json:"content_type" doc:"A media type: application/pdf."`
		Size        int64  `json:"size" minimum:"0" doc:"Bytes."`
		SHA256      string `json:"sha256,omitempty" doc:"SHA-256 of the content, in hex; if given, the content must match."`
	} `nameHint:"PresignUploadRequest"`
}

func (h *fileHandlers) presignUpload(ctx context.Context, input *presignInput) (*rest.Output[PresignedUpload], error) {
	if h.calls.Files == nil {
		return nil, errNoFiles
	}
	if rest.CallerOf(ctx).Agent == nil && input.Body.Agent == "" {
		return nil, rest.InvalidField("body.agent", "must be the name of an agent that you act as")
	}
	viewer, err := h.OwnViewer(ctx, input.Body.Agent)
	if err != nil {
		return nil, err
	}
	p, err := h.calls.Files.Presign(ctx, ownerOf(viewer), file.Announcement{
		Filename: input.Body.Filename, ContentType: input.Body.ContentType, Size: input.Body.Size, SHA256: input.Body.SHA256,
	})
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(PresignedUpload{
		FileID: p.File.ID, UploadURL: p.UploadURL, Method: http.MethodPut, Headers: map[string]string{"Content-Type": p.File.ContentType},
		ExpiresAt: p.ExpiresAt.UTC(), MaxBytes: p.File.Size,
	}), nil
}

func ownerOf(v call.Viewer) file.Owner {
	return file.Owner{AgentID: v.AgentID, PrincipalID: v.PrincipalID}
}

func (h *fileHandlers) getFile(ctx context.Context, input *rest.ByID) (*rest.Output[File], error) {
	f, err := h.ownFile(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	view := File{
		ID: f.ID, Filename: f.Filename, ContentType: f.ContentType, Size: f.Size, SHA256: rest.OrNull(hex.EncodeToString(f.SHA256)),
		CreatedAt: f.CreatedAt.UTC(), UploadedAt: rest.UTCOrNull(f.UploadedAt), AttachedAt: rest.UTCOrNull(f.AttachedAt),
	}
	return rest.NewOutput(view), nil
}

// ownFile returns a file of the caller: the agent's, or one of an agent that the person acts as.
func (h *fileHandlers) ownFile(ctx context.Context, text string) (file.File, error) {
	id, err := rest.ParseID("file", text)
	if err != nil {
		return file.File{}, err
	}
	if h.calls.Files == nil {
		return file.File{}, errNoFiles
	}
	who := rest.CallerOf(ctx)
	if who.Agent != nil {
		f, err := h.calls.Files.Get(ctx, ownerOf(who.ViewerAs(who.Agent.ID)), id)
		return f, rest.WithName(err, "file", text)
	}
	f, err := h.calls.Files.Owned(ctx, who.PersonID(), id)
	if err != nil {
		return f, rest.WithName(err, "file", text)
	}
	names, err := h.Agents.Names(ctx, []uuid.UUID{f.Owner.AgentID})
	if err != nil {
		return f, err
	}
	if !who.Person.MayActAs(names[f.Owner.AgentID]) {
		return f, rest.NotFound("file", text)
	}
	return f, nil
}

func (h *fileHandlers) deleteFile(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	f, err := h.ownFile(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	return nil, h.calls.Files.Delete(ctx, rest.CallerOf(ctx).Actor(), f.Owner, f.ID)
}

type downloadFileInput struct {
	rest.ByID
	File string `path:"file"`
}

func (h *fileHandlers) downloadFile(ctx context.Context, input *downloadFileInput) (*huma.StreamResponse, error) {
	found, viewer, err := h.visibleCall(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	id, err := rest.ParseID("file", input.File)
	if err != nil {
		return nil, err
	}
	attached, err := h.calls.OpenFile(ctx, viewer, rest.CallerOf(ctx).Actor(), found.ID, id)
	if err != nil {
		return nil, rest.WithName(err, "file", input.File)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		h.calls.Files.Send(w, r, attached)
	}}, nil
}

// Problem maps the errors of package file, nil for other errors.
func Problem(err error) *rest.Problem {
	var refused *file.RefusedError
	switch {
	case errors.As(err, &refused):
		status, code := refused.Reason.Status()
		p := rest.NewProblem(status, code, "body.%s: %s", refused.Field, refused.Expected)
		p.Errors = []rest.ProblemField{{Location: "body." + refused.Field, Message: refused.Expected}}
		return p
	case errors.Is(err, file.ErrNotFound):
		return rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "there is no such file here")
	case errors.Is(err, file.ErrAttached):
		return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the file is attached to a call and cannot be deleted")
	case errors.Is(err, file.ErrTooMany):
		return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the agent has too many files without a call: delete some, or wait a day")
	}
	return nil
}
