package converse

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// What is not text is not stored with the conversation: it is read where it is, each time the model is asked.

// pictures are what a request needs besides what was said: calls with images, and files, by the call that they came by.
type pictures struct {
	calls map[uuid.UUID]call.Call
	files map[uuid.UUID][]model.Part
}

var noPictures = pictures{} //nolint:gochecknoglobals // the zero value, by name

// pictures reads them.
func (t *turn) pictures(ctx context.Context, said []Entry) (pictures, error) {
	var withImages []uuid.UUID
	p := pictures{files: map[uuid.UUID][]model.Part{}}
	for i := range said {
		switch e := &said[i]; {
		case e.Tools != nil:
			for _, r := range e.Tools.Results {
				if len(r.Images) > 0 {
					withImages = append(withImages, r.CallID)
				}
			}
		case e.User != nil && len(e.User.Files) > 0 && t.s.Files != nil:
			parts, err := t.files(ctx, e.User)
			if err != nil {
				return p, err
			}
			p.files[e.User.ID] = parts
		}
	}
	if len(withImages) == 0 {
		return p, nil
	}
	var err error
	p.calls, err = t.s.Calls.Known(ctx, withImages)
	return p, err
}

// of are images of a call's result.
func (p pictures) of(callID uuid.UUID, which []int) []model.Part {
	c, there := p.calls[callID]
	if !there {
		return nil
	}
	list, _ := blocks(&c)
	var parts []model.Part
	for _, i := range which {
		if i < len(list) && len(parts) < maxImages {
			if found := list[i].image(); found != nil {
				parts = append(parts, model.Part{Image: found})
			}
		}
	}
	return parts
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
func (t *turn) files(ctx context.Context, m *Message) ([]model.Part, error) {
	attached, err := t.s.Files.OfCalls(ctx, []uuid.UUID{m.FilesOf})
	if err != nil {
		return nil, err
	}
	var parts []model.Part
	for _, a := range attached[m.FilesOf] {
		f := File{Name: a.Filename, MediaType: a.ContentType, Size: a.Size}
		parts = append(parts, t.shown(ctx, &f, a)...)
	}
	return parts, nil
}

func (t *turn) shown(ctx context.Context, f *File, a file.Attached) []model.Part {
	isText := textual(f.MediaType)
	if !isText && !strings.HasPrefix(f.MediaType, "image/") || f.Size > maxImageBytes {
		return []model.Part{model.TextPart(f.words() + " It cannot be shown to you.")}
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
	if found := image(f.MediaType, data); found != nil {
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
