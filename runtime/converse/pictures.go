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

// What is not text is not stored with the conversation: it is read where it is, each time the model is asked.

// pictures are what a request needs besides what was said: images of results and files, by the call that they came by.
type pictures struct {
	calls map[uuid.UUID][]model.Part
	files map[uuid.UUID][]model.Part
}

var noPictures = pictures{} //nolint:gochecknoglobals // the zero value, by name

const (
	maxRequestImages     = 50       // of one request
	maxRequestImageBytes = 20 << 20 // likewise, together: providers take 32 MiB, encoded
)

// room is what a request can take yet.
type room struct{ images, bytes int }

// take reports whether there is room for an image, and takes it.
func (r *room) take(i *model.Image) bool {
	if r.images == 0 || len(i.Data) > r.bytes {
		return false
	}
	r.images--
	r.bytes -= len(i.Data)
	return true
}

// pictures reads them, the newest first: a long conversation has more of them than a request can take.
func (t *turn) pictures(ctx context.Context, said []Entry) (pictures, error) {
	p := pictures{calls: map[uuid.UUID][]model.Part{}, files: map[uuid.UUID][]model.Part{}}
	left := room{maxRequestImages, maxRequestImageBytes}
	var err error
	for _, e := range slices.Backward(said) {
		switch {
		case e.Tools != nil:
			for i := range e.Tools.Results {
				r := &e.Tools.Results[i]
				if len(r.Images) == 0 || left.images == 0 {
					continue
				}
				if p.calls[r.CallID], err = t.images(ctx, r, &left); err != nil {
					return p, err
				}
			}
		case e.User != nil && len(e.User.Files) > 0 && t.s.Files != nil:
			if p.files[e.User.ID], err = t.files(ctx, e.User, &left); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// images are those of a call's result.
func (t *turn) images(ctx context.Context, r *Result, left *room) ([]model.Part, error) {
	known, err := t.s.Calls.Known(ctx, []uuid.UUID{r.CallID})
	if err != nil {
		return nil, err
	}
	c, there := known[r.CallID]
	if !there {
		return nil, nil
	}
	list, _ := blocks(&c)
	var parts []model.Part
	for _, i := range r.Images {
		if i < len(list) && len(parts) < maxImages {
			if found := list[i].image(); found != nil && left.take(found) {
				parts = append(parts, model.Part{Image: found})
			}
		}
	}
	return parts, nil
}

// attached are the files of a message.
func (p pictures) attached(m *Message) []model.Part {
	if parts, read := p.files[m.ID]; read {
		return parts
	}
	var parts []model.Part
	for i := range m.Files {
		parts = append(parts, model.TextPart(m.Files[i].words()+" It cannot be shown to you."))
	}
	return parts
}

func (f *File) words() string {
	return fmt.Sprintf("[attached file %s: %s, %d bytes]", plain.Quoted(f.Name, maxShown), plain.Line(f.MediaType, maxShown), f.Size)
}

// maxFileText is how much of a file of text a model is shown.
const maxFileText = 64 << 10

// files are what a model sees of the files that came with a message: text and images.
func (t *turn) files(ctx context.Context, m *Message, left *room) ([]model.Part, error) {
	attached, err := t.s.Files.OfCalls(ctx, []uuid.UUID{m.FilesOf})
	if err != nil {
		return nil, err
	}
	var parts []model.Part
	for _, a := range attached[m.FilesOf] {
		f := File{Name: a.Filename, MediaType: a.ContentType, Size: a.Size}
		parts = append(parts, t.shown(ctx, &f, a, left)...)
	}
	return parts, nil
}

func (t *turn) shown(ctx context.Context, f *File, a file.Attached, left *room) []model.Part {
	isText := textual(f.MediaType)
	if !isText && !strings.HasPrefix(f.MediaType, "image/") || f.Size > maxImageBytes {
		return []model.Part{model.TextPart(f.words() + " It cannot be shown to you.")}
	}
	if !isText && (left.images == 0 || f.Size > int64(left.bytes)) {
		return []model.Part{model.TextPart(f.words() + " It is not shown to you any more: newer images take the room.")}
	}
	data, err := t.s.Files.Content(ctx, a)
	if err != nil {
		t.s.Logger.Warn("a file cannot be shown to the model", "conversation", t.id, "file", a.FileID, "error", err)
		return []model.Part{model.TextPart(f.words() + " It cannot be read any more.")}
	}
	if isText {
		text := strings.ToValidUTF8(string(data), "\uFFFD")
		note := ""
		if len(text) > maxFileText {
			text, note = strings.ToValidUTF8(text[:maxFileText], ""), fmt.Sprintf("\n[The file has %d bytes; this is the beginning.]", f.Size)
		}
		return []model.Part{model.TextPart(f.words() + "\n" + text + note)}
	}
	if found := image(f.MediaType, data); found != nil && left.take(found) {
		return []model.Part{model.TextPart(f.words()), {Image: found}}
	}
	return []model.Part{model.TextPart(f.words() + " It cannot be shown to you.")}
}

// textual reports whether a media type is text that a model can read.
func textual(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	switch mediaType = strings.TrimSpace(mediaType); mediaType {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/sql":
		return true
	}
	return strings.HasPrefix(mediaType, "text/")
}
