package api

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/file"
)

// AttachedFile is a file as a call has it.
type AttachedFile struct {
	FileID      uuid.UUID `json:"file_id" format:"uuid"`
	Filename    string    `json:"filename"`
	ContentType string    `json:"content_type" doc:"As it was declared; the content was not looked at."`
	Size        int64     `json:"size" doc:"Bytes."`
	SHA256      string    `json:"sha256" doc:"Of the content, in hex."`
}

func attachedFiles(files []file.Attached) []AttachedFile {
	list := make([]AttachedFile, 0, len(files))
	for i := range files {
		f := &files[i]
		list = append(list, AttachedFile{f.FileID, f.Filename, f.ContentType, f.Size, hex.EncodeToString(f.SHA256[:])})
	}
	return list
}

// File is what an agent announced, and perhaps uploaded.
type File struct {
	ID          uuid.UUID  `json:"file_id" format:"uuid"`
	Filename    string     `json:"filename"`
	ContentType string     `json:"content_type"`
	Size        int64      `json:"size" doc:"Bytes."`
	SHA256      *string    `json:"sha256" doc:"Of the content, in hex; null until it is uploaded."`
	CreatedAt   time.Time  `json:"created_at"`
	UploadedAt  *time.Time `json:"uploaded_at"`
	AttachedAt  *time.Time `json:"attached_at" doc:"When it was first attached to a call; it is kept from then on. What is attached to none is deleted after a day."`
}

// PresignedUpload is where a file is uploaded.
type PresignedUpload struct {
	FileID    uuid.UUID         `json:"file_id" format:"uuid" doc:"Names the file in the attachments of a tool's arguments, once it is uploaded."`
	UploadURL string            `json:"upload_url" doc:"Whoever has it may upload, once. It takes no credential."`
	Method    string            `json:"method" enum:"PUT"`
	Headers   map[string]string `json:"headers" doc:"To be sent with the content."`
	ExpiresAt time.Time         `json:"expires_at"`
	MaxBytes  int64             `json:"max_bytes" doc:"How large the content may be: as large as was announced."`
}

var errNoFiles = problem(http.StatusServiceUnavailable, CodeNotAvailable, "this server has no storage for files")

type presignInput struct {
	Body struct {
		Agent       string `json:"agent,omitempty" doc:"As which agent; needed by people, who may act as several."`
		Filename    string `json:"filename" doc:"A name without a path, at most 255 bytes."`
		ContentType string `json:"content_type" doc:"A media type: application/pdf."`
		Size        int64  `json:"size" minimum:"0" doc:"Bytes."`
		SHA256      string `json:"sha256,omitempty" doc:"Of the content, in hex; where it is given, the content has to match."`
	} `nameHint:"PresignUploadRequest"`
}

func (a *API) presignUpload(ctx context.Context, input *presignInput) (*bodyOutput[PresignedUpload], error) {
	if a.calls.Files == nil {
		return nil, errNoFiles
	}
	if callerOf(ctx).agent == nil && input.Body.Agent == "" {
		return nil, invalid("body.agent", "expected the name of an agent that you act as")
	}
	viewer, err := a.scope(ctx, input.Body.Agent)
	if err != nil {
		return nil, err
	}
	p, err := a.calls.Files.Presign(ctx, ownerOf(viewer), file.Announcement{
		Filename: input.Body.Filename, ContentType: input.Body.ContentType, Size: input.Body.Size, SHA256: input.Body.SHA256,
	})
	if err != nil {
		return nil, err
	}
	return output(PresignedUpload{
		FileID: p.File.ID, UploadURL: p.UploadURL, Method: http.MethodPut, Headers: map[string]string{"Content-Type": p.File.ContentType},
		ExpiresAt: p.ExpiresAt.UTC(), MaxBytes: p.File.Size,
	}), nil
}

func ownerOf(v call.Viewer) file.Owner {
	return file.Owner{AgentID: v.AgentID, PrincipalID: v.PrincipalID}
}

func (a *API) getFile(ctx context.Context, input *ByID) (*bodyOutput[File], error) {
	f, err := a.ownFile(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	view := File{
		ID: f.ID, Filename: f.Filename, ContentType: f.ContentType, Size: f.Size, SHA256: orNull(hex.EncodeToString(f.SHA256)),
		CreatedAt: f.CreatedAt.UTC(), UploadedAt: utcOrNull(f.UploadedAt), AttachedAt: utcOrNull(f.AttachedAt),
	}
	return output(view), nil
}

// ownFile returns a file of the caller's own: the agent's, or of an agent that the person acts as.
func (a *API) ownFile(ctx context.Context, text string) (file.File, error) {
	id, err := idOf("file", text)
	if err != nil {
		return file.File{}, err
	}
	if a.calls.Files == nil {
		return file.File{}, errNoFiles
	}
	who := callerOf(ctx)
	if who.agent != nil {
		f, err := a.calls.Files.Get(ctx, ownerOf(who.viewerAs(who.agent.ID)), id)
		return f, named(err, "file", text)
	}
	f, err := a.calls.Files.Owned(ctx, who.personID(), id)
	if err != nil {
		return f, named(err, "file", text)
	}
	names, err := a.agents.Names(ctx, []uuid.UUID{f.Owner.AgentID})
	if err != nil {
		return f, err
	}
	if !who.person.MayActAs(names[f.Owner.AgentID]) {
		return f, notFound("file", text)
	}
	return f, nil
}

func (a *API) deleteFile(ctx context.Context, input *ByID) (*none, error) {
	f, err := a.ownFile(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.calls.Files.Delete(ctx, callerOf(ctx).actor(), f.Owner, f.ID)
}

type downloadFileInput struct {
	ByID
	File string `path:"file"`
}

func (a *API) downloadFile(ctx context.Context, input *downloadFileInput) (*huma.StreamResponse, error) {
	found, viewer, err := a.visibleCall(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	id, err := idOf("file", input.File)
	if err != nil {
		return nil, err
	}
	attached, err := a.calls.OpenFile(ctx, viewer, callerOf(ctx).actor(), found.ID, id)
	if err != nil {
		return nil, named(err, "file", input.File)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		a.calls.Files.Send(w, r, attached)
	}}, nil
}

// fileProblem translates the errors of package file.
func fileProblem(err error) *Problem {
	var refused *file.RefusedError
	switch {
	case errors.As(err, &refused):
		status, code := refused.Reason.Status()
		p := problem(status, code, "body.%s: %s", refused.Field, refused.Expected)
		p.Errors = []ProblemField{{Location: "body." + refused.Field, Message: refused.Expected}}
		return p
	case errors.Is(err, file.ErrNotFound):
		return problem(http.StatusNotFound, CodeNotFound, "there is no such file here")
	case errors.Is(err, file.ErrAttached):
		return problem(http.StatusConflict, CodeStateConflict, "the file is attached to a call, which keeps it")
	case errors.Is(err, file.ErrTooMany):
		return problem(http.StatusConflict, CodeStateConflict, "the agent has as many files as it may that are attached to no call: delete some, or wait a day")
	}
	return nil
}
