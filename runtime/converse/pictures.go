package converse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// Images and files are not stored with the conversation. They are read from their place for each request to the model.

// pictures are the images of results and the contents of attached files, by call and by message.
type pictures struct {
	calls map[uuid.UUID][]model.Part
	files map[uuid.UUID][]model.Part
}

const (
	maxRequestImages     = 50       // in one request
	maxRequestImageBytes = 20 << 20 // of all images in one request: providers take 32 MiB, encoded
)

// imageBudget is the space that is left in a request.
type imageBudget struct{ images, bytes int }

// takeImage reserves space for an image. It returns false if there is none left.
func (r *imageBudget) takeImage(i *model.Image) bool {
	if r.images == 0 || len(i.Data) > r.bytes {
		return false
	}
	r.images--
	r.bytes -= len(i.Data)
	return true
}

// loadPictures reads the newest pictures, up to the limits of a request.
func (t *turn) loadPictures(ctx context.Context, said []Entry) (pictures, error) {
	p := pictures{calls: map[uuid.UUID][]model.Part{}, files: map[uuid.UUID][]model.Part{}}
	left := imageBudget{maxRequestImages, maxRequestImageBytes}
	var err error
	for _, e := range slices.Backward(said) {
		switch {
		case e.Tools != nil:
			for i := range e.Tools.Results {
				r := &e.Tools.Results[i]
				if len(r.Images) == 0 || left.images == 0 {
					continue
				}
				if p.calls[r.CallID], err = t.loadImages(ctx, r, &left); err != nil {
					return p, err
				}
			}
		case e.User != nil && len(e.User.Files) > 0 && t.s.Files != nil:
			if p.files[e.User.ID], err = t.loadFiles(ctx, e.User, &left); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// loadImages reads the images of a call's result.
func (t *turn) loadImages(ctx context.Context, r *Result, left *imageBudget) ([]model.Part, error) {
	known, err := t.s.Calls.ReadCalls(ctx, []uuid.UUID{r.CallID})
	if err != nil {
		return nil, err
	}
	c, there := known[r.CallID]
	if !there {
		return nil, nil
	}
	list, _ := parseContent(&c)
	var parts []model.Part
	for _, i := range r.Images {
		if i < len(list) && len(parts) < maxImages {
			if found := list[i].asImage(); found != nil && left.takeImage(found) {
				parts = append(parts, model.Part{Image: found})
			}
		}
	}
	return parts, nil
}

// fileParts returns the parts for the files of a message.
func (p pictures) fileParts(m *Message) []model.Part {
	if parts, read := p.files[m.ID]; read {
		return parts
	}
	var parts []model.Part
	for i := range m.Files {
		parts = append(parts, model.TextPart(m.Files[i].describeFile()+" It cannot be shown to you."))
	}
	return parts
}

func (f *File) describeFile() string {
	return fmt.Sprintf("[attached file %s: %s, %d bytes]", plain.Quoted(f.Name, maxShown), plain.Line(f.MediaType, maxShown), f.Size)
}

// maxFileText bounds the part of a text file that a model sees, in bytes.
const maxFileText = 64 << 10

// loadFiles reads the files of a message: text and images.
func (t *turn) loadFiles(ctx context.Context, m *Message, left *imageBudget) ([]model.Part, error) {
	attached, err := t.s.Files.OfCalls(ctx, []uuid.UUID{m.FilesOf})
	if err != nil {
		return nil, err
	}
	var parts []model.Part
	for _, a := range attached[m.FilesOf] {
		f := File{Name: a.Filename, MediaType: a.ContentType, Size: a.Size}
		parts = append(parts, t.loadFile(ctx, &f, a, left)...)
	}
	return parts, nil
}

func (t *turn) loadFile(ctx context.Context, f *File, a file.Attached, left *imageBudget) []model.Part {
	isText := isText(f.MediaType)
	if !isText && !strings.HasPrefix(f.MediaType, "image/") || f.Size > maxImageBytes {
		return []model.Part{model.TextPart(f.describeFile() + " It cannot be shown to you.")}
	}
	if !isText && (left.images == 0 || f.Size > int64(left.bytes)) {
		return []model.Part{model.TextPart(f.describeFile() + " It is not shown to you: newer images use up the space.")}
	}
	data, err := t.s.Files.Content(ctx, a)
	if err != nil {
		t.s.Logger.Warn("file not readable for the model", "conversation", t.id, "file", a.FileID, "error", err)
		return []model.Part{model.TextPart(f.describeFile() + " It can no longer be read.")}
	}
	if isText {
		text := strings.ToValidUTF8(string(data), "\uFFFD")
		note := ""
		if len(text) > maxFileText {
			text, note = strings.ToValidUTF8(text[:maxFileText], ""), fmt.Sprintf("\n[The file has %d bytes; this is the beginning.]", f.Size)
		}
		return []model.Part{model.TextPart(f.describeFile() + "\n" + text + note)}
	}
	if found := newImage(f.MediaType, data); found != nil && left.takeImage(found) {
		return []model.Part{model.TextPart(f.describeFile()), {Image: found}}
	}
	return []model.Part{model.TextPart(f.describeFile() + " It cannot be shown to you.")}
}

// isText reports whether a model can read a media type as text.
func isText(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	switch mediaType = strings.TrimSpace(mediaType); mediaType {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/sql":
		return true
	}
	return strings.HasPrefix(mediaType, "text/")
}
