package file

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// AttachmentError reports an invalid attachment in a call's arguments.
type AttachmentError struct {
	Pointer  string // RFC 6901, in the arguments
	Expected string
}

func (e *AttachmentError) Error() string { return "arguments " + e.Pointer + ": " + e.Expected }

func newAttachmentError(i int, member, format string, args ...any) error {
	return &AttachmentError{Pointer: "/" + Member + "/" + strconv.Itoa(i) + member, Expected: fmt.Sprintf(format, args...)}
}

// newDeletedError reports a file whose content was deleted: by its agent, by age, or with its person.
func newDeletedError(i int, id uuid.UUID, name string) error {
	return newAttachmentError(i, "/file_id", "must be a file whose content is still stored; that of %s (%q) was deleted: upload the file again", id, name)
}

// Freeze rewrites the attachments in a call's arguments for the skill's server: each gets its name, type, size, SHA-256 and a
// URL that works once the call is claimed. It leaves out members that the tool's schema does not accept. All other bytes stay
// the same. The arguments must be clean (see call.CleanArguments). The caller records the returned files with [Record]. Errors:
// *[AttachmentError].
func (s *Service) Freeze(ctx context.Context, owner Owner, callID uuid.UUID, schema, arguments json.RawMessage) (json.RawMessage, []Attached, error) {
	found, err := findAttachments(arguments)
	if err != nil || !found.hasFiles() {
		return arguments, nil, err
	}
	if len(found.elements) > MaxAttached {
		return nil, nil, &AttachmentError{"/" + Member, fmt.Sprintf("must be at most %d files", MaxAttached)}
	}
	files, err := s.readNamedFiles(ctx, owner, found.elements)
	if err != nil {
		return nil, nil, err
	}
	takes := acceptedMembers(schema)
	attached := make([]Attached, len(found.elements))
	value := bytes.NewBufferString("[")
	for i, e := range found.elements {
		if attached[i], err = s.checkAttachment(ctx, i, e, files); err != nil {
			return nil, nil, err
		}
		capability, hash := newCapability()
		attached[i].capabilityHash = hash
		url := s.PublicURL + downloadPath + callID.String() + "/" + attached[i].FileID.String() + "/" + capability
		if i > 0 {
			value.WriteByte(',')
		}
		if err := writeElement(value, &attached[i], url, e, takes); err != nil {
			return nil, nil, err
		}
	}
	value.WriteByte(']')
	frozen := append(append(append([]byte(nil), arguments[:found.start]...), value.Bytes()...), arguments[found.end:]...)
	return frozen, attached, nil
}

// readNamedFiles reads the owner's files that the elements name.
func (s *Service) readNamedFiles(ctx context.Context, owner Owner, elements []element) (map[uuid.UUID]File, error) {
	ids := make([]uuid.UUID, 0, len(elements))
	for i := range elements {
		if id, err := uuid.Parse(elements[i].fileID); err == nil {
			ids = append(ids, id)
		}
	}
	rows, _ := s.Pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE`+ownedBy+` AND id = ANY($3)`,
		owner.AgentID, postgres.OrNull(owner.PrincipalID), ids)
	list, err := pgx.CollectRows(rows, scanFile)
	if err != nil {
		return nil, fmt.Errorf("read attached files: %w", err)
	}
	files := make(map[uuid.UUID]File, len(list))
	for _, f := range list {
		files[f.ID] = f
	}
	return files, nil
}

const expectedFile = "must be the id of a file that this agent uploaded, as POST /api/v1/files/presign-upload gives it"

// checkAttachment validates one attachment.
func (s *Service) checkAttachment(ctx context.Context, i int, e element, files map[uuid.UUID]File) (Attached, error) {
	id, err := uuid.Parse(e.fileID)
	f, known := files[id]
	switch {
	case err != nil || !known:
		return Attached{}, newAttachmentError(i, "/file_id", expectedFile)
	case f.UploadedAt == nil:
		return Attached{}, newAttachmentError(i, "/file_id", "must be an uploaded file; this one was only announced")
	case f.Size > s.MaxSize:
		return Attached{}, newAttachmentError(i, "/file_id", "must be a file of at most %d bytes; this one has %d", s.MaxSize, f.Size)
	}
	if f.object == "" {
		return Attached{}, newDeletedError(i, f.ID, f.Filename)
	}
	there, err := s.objects.hasObject(ctx, f.object, f.Size)
	if err != nil {
		return Attached{}, err
	}
	if !there {
		s.Logger.Error("uploaded file missing in storage", "file", f.ID)
		return Attached{}, newAttachmentError(i, "/file_id", "must be a file whose content is still stored; upload it again")
	}
	a := Attached{FileID: f.ID, Filename: f.Filename, ContentType: f.ContentType, Size: f.Size, SHA256: [32]byte(f.SHA256), object: f.object}
	if e.filename != nil {
		a.Filename = *e.filename
	}
	if err := checkFilename(a.Filename); err != nil {
		return a, locateError(i, err)
	}
	if e.contentType != nil {
		a.ContentType = *e.contentType
	}
	a.ContentType, err = s.checkType(a.ContentType)
	return a, locateError(i, err)
}

func locateError(i int, err error) error {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return newAttachmentError(i, "/"+refused.Field, "%s", refused.Expected)
	}
	return err
}

// writeElement writes the server's form of an attachment: our members first, then the agent's other members, byte for byte.
func writeElement(to *bytes.Buffer, a *Attached, url string, e element, takes func(string) bool) error {
	members := []struct {
		name  string
		value jsontext.Token
	}{
		{"file_id", jsontext.String(a.FileID.String())},
		{"filename", jsontext.String(a.Filename)},
		{"content_type", jsontext.String(a.ContentType)},
		{"size", jsontext.Int(a.Size)},
		{"sha256", jsontext.String(hex.EncodeToString(a.SHA256[:]))},
		{"url", jsontext.String(url)},
	}
	encoder := jsontext.NewEncoder(to, jsontext.PreserveRawStrings(true))
	if err := encoder.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, m := range members {
		if !takes(m.name) {
			continue
		}
		if err := errors.Join(encoder.WriteToken(jsontext.String(m.name)), encoder.WriteToken(m.value)); err != nil {
			return err
		}
	}
	for _, m := range e.others {
		if err := errors.Join(encoder.WriteValue(m.name), encoder.WriteValue(m.value)); err != nil {
			return err
		}
	}
	if err := encoder.WriteToken(jsontext.EndObject); err != nil {
		return err
	}
	to.Truncate(len(bytes.TrimRight(to.Bytes(), "\n"))) // the encoder ends each value with a newline
	return nil
}
