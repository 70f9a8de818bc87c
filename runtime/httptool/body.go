package httptool

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// entry is a field of a body with the value of its argument.
type entry struct {
	openapi.Field
	raw json.RawMessage
}

func (o *outboundRequest) putBody(b *openapi.Binding, args *arguments) error {
	if b.Body == nil {
		return nil
	}
	raw, whole, entries, err := readEntries(b.Body, args)
	if err != nil {
		return err
	}
	if !whole && len(entries) == 0 && (!b.Body.Required || b.Body.Arg != "") {
		return nil
	}
	o.media = b.Body.Media
	if problem := setting.HeaderValueProblem(o.media); problem != "" {
		return fmt.Errorf("the media type of the body %s", problem)
	}
	switch b.Body.Kind {
	case openapi.BodyJSON:
		o.body = raw
		if !whole {
			o.body = []byte{'{'} // the arguments stay byte for byte
			for _, e := range entries {
				o.body = rawjson.AppendMember(o.body, e.Name, e.raw)
			}
			o.body = append(o.body, '}')
		}
		o.media = cmp.Or(o.media, "application/json")
	case openapi.BodyForm:
		o.body, err = encodeForm(entries)
		o.media = cmp.Or(o.media, "application/x-www-form-urlencoded")
	case openapi.BodyMultipart:
		o.body, o.media, err = encodeMultipart(entries, o.media)
	case openapi.BodyText:
		text, _ := scalarText(raw)
		if k := jsontext.Value(raw).Kind(); k == '[' || k == '{' {
			text = string(raw)
		}
		o.body = []byte(text)
		o.media = cmp.Or(o.media, "text/plain; charset=utf-8")
	case openapi.BodyBytes:
		o.body, err = decodeBase64(b.Body.Arg, raw)
		o.media = cmp.Or(o.media, "application/octet-stream")
	default:
		return fmt.Errorf("bodies of kind %q cannot be written", plain.Line(b.Body.Kind, 40))
	}
	return err
}

// readEntries returns the arguments of the body: one that is the whole body, or one for each field. If one object is a whole form, its
// members are the fields.
func readEntries(body *openapi.Body, args *arguments) (raw json.RawMessage, whole bool, entries []entry, err error) {
	if body.Arg == "" {
		for _, f := range body.Fields {
			value, ok := args.takeArgument(f.Arg)
			if ok && (body.Kind == openapi.BodyJSON || string(bytes.TrimSpace(value)) != "null") {
				entries = append(entries, entry{f, value})
			}
		}
		return nil, false, entries, nil
	}
	if raw, whole = args.takeArgument(body.Arg); !whole || body.Kind != openapi.BodyForm && body.Kind != openapi.BodyMultipart {
		return raw, whole, nil, nil
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, false, nil, badArgument(body.Arg, "must be an object: its members are the fields of the form")
	}
	for m, err := range rawjson.Members(raw) {
		if err != nil {
			return nil, false, nil, err
		}
		if string(m.Value) != "null" {
			entries = append(entries, entry{openapi.Field{Arg: body.Arg, Name: m.Name(), Explode: true}, json.RawMessage(m.Value)})
		}
	}
	return raw, true, entries, nil
}

// encodeForm encodes a form. Without a style, objects are encoded as JSON, also in lists.
func encodeForm(entries []entry) ([]byte, error) {
	own := map[string]bool{}
	for _, e := range entries {
		own[escapeAll(e.Name)] = true
	}
	var written []string
	for _, e := range entries {
		raw, style, explode := e.raw, e.Style, e.Explode
		if style == "" {
			var err error
			if raw, err = quoteObjects(raw); err != nil {
				return nil, err
			}
			explode = true
		}
		pairs, err := encodePairs(e.Arg, e.Name, style, explode, raw, escapeAll)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			if p.name != escapeAll(e.Name) && own[p.name] {
				return nil, badArgument(e.Arg, "has the member %q, which is another field of the form", plain.Line(decodePercent(p.name), 100))
			}
			written = append(written, p.name+"="+p.value)
		}
	}
	return []byte(strings.Join(written, "&")), nil
}

// quoteObjects replaces an object, and each object and list in a list, by a string with its JSON.
func quoteObjects(raw json.RawMessage) (json.RawMessage, error) {
	switch jsontext.Value(raw).Kind() {
	case '{':
		return tool.Quote([]byte(raw)), nil
	case '[':
		list := []byte{'['}
		elements, err := readList(raw)
		for i, element := range elements {
			if kind := jsontext.Value(element).Kind(); kind == '{' || kind == '[' {
				element = tool.Quote([]byte(element))
			}
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, element...)
		}
		return append(list, ']'), err
	default:
		return raw, nil
	}
}

// part is one part of a multipart body.
type part struct {
	name, file, media string
	content           []byte
}

func encodeMultipart(entries []entry, media string) ([]byte, string, error) {
	var parts []part
	for _, e := range entries {
		left := maxWritten
		values := []json.RawMessage{e.raw}
		if jsontext.Value(e.raw).Kind() == '[' {
			var err error
			if values, err = readList(e.raw); err != nil {
				return nil, "", err
			}
		}
		for _, raw := range values {
			p, err := encodePart(e, raw)
			if err != nil {
				return nil, "", err
			}
			if left -= len(p.name) + len(p.content); left < 0 {
				return nil, "", tooLongError(e.Arg)
			}
			parts = append(parts, p)
		}
	}
	boundary := chooseBoundary(parts)
	var body bytes.Buffer
	for _, p := range parts {
		fmt.Fprintf(&body, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", boundary, quotePartName(p.name))
		if p.file != "" {
			fmt.Fprintf(&body, "; filename=\"%s\"", quotePartName(p.file))
		}
		if p.media != "" {
			fmt.Fprintf(&body, "\r\nContent-Type: %s", p.media)
		}
		body.WriteString("\r\n\r\n")
		body.Write(p.content)
		body.WriteString("\r\n")
	}
	fmt.Fprintf(&body, "--%s--\r\n", boundary)
	media = cmp.Or(media, "multipart/form-data")
	return body.Bytes(), media + "; boundary=" + boundary, nil
}

func encodePart(e entry, raw json.RawMessage) (part, error) {
	p := part{name: e.Name, media: e.Media}
	if setting.HeaderValueProblem(p.media) != "" {
		return p, fmt.Errorf("the media type of the part %q cannot be sent", plain.Line(e.Name, 100))
	}
	text, isScalar := scalarText(raw)
	switch {
	case e.File:
		content, err := decodeBase64(e.Arg, raw)
		if err != nil {
			return p, err
		}
		p.content, p.file = content, e.Name
		p.media = cmp.Or(p.media, "application/octet-stream")
	case isScalar && (p.media == "" || !openapi.IsJSON(p.media)):
		p.content = []byte(text)
	default:
		p.content = raw
		p.media = cmp.Or(p.media, "application/json")
	}
	return p, nil
}

// quotePartName escapes a name for quotes (WHATWG HTML, multipart/form-data encoding algorithm).
func quotePartName(name string) string {
	return strings.NewReplacer("\r", "%0D", "\n", "%0A", `"`, "%22", "\x00", "%00").Replace(name)
}

// chooseBoundary derives the boundary from the parts. So the same arguments give the same bytes, and no argument can contain the boundary.
func chooseBoundary(parts []part) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %d %d %d\n", len(p.name), len(p.file), len(p.media), len(p.content))
		for _, text := range []string{p.name, p.file, p.media} {
			h.Write([]byte(text))
		}
		h.Write(p.content)
	}
	return "holdpoint-" + hex.EncodeToString(h.Sum(nil)[:24])
}

func decodeBase64(argument string, raw json.RawMessage) ([]byte, error) {
	const expected = "must be bytes as a string of base64 (RFC 4648, section 4)"
	text, ok := scalarText(raw)
	if !ok || jsontext.Value(raw).Kind() != '"' {
		return nil, badArgument(argument, expected)
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, badArgument(argument, expected)
	}
	return content, nil
}
