package httptool

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// entry is a field of a body with its argument.
type entry struct {
	Field
	raw json.RawMessage
}

func (o *outboundRequest) putBody(b *Binding, args *arguments) error {
	if b.Body == nil {
		return nil
	}
	raw, whole, entries, err := bodyEntries(b.Body, args)
	if err != nil {
		return err
	}
	if !whole && len(entries) == 0 && (!b.Body.Required || b.Body.Arg != "") {
		return nil
	}
	o.media = b.Body.Media
	if problem := tool.HeaderValueProblem(o.media); problem != "" {
		return fmt.Errorf("the media type of the body %s", problem)
	}
	switch b.Body.Kind {
	case BodyJSON:
		o.body = raw
		if !whole {
			o.body = jsonBody(entries)
		}
		setDefault(&o.media, "application/json")
	case BodyForm:
		o.body, err = formBody(entries)
		setDefault(&o.media, "application/x-www-form-urlencoded")
	case BodyMultipart:
		o.body, o.media, err = multipartBody(entries, o.media)
	case BodyText:
		text, _ := scalar(raw)
		if k := jsontext.Value(raw).Kind(); k == '[' || k == '{' {
			text = string(raw)
		}
		o.body = []byte(text)
		setDefault(&o.media, "text/plain; charset=utf-8")
	case BodyBytes:
		o.body, err = base64Bytes(b.Body.Arg, raw)
		setDefault(&o.media, "application/octet-stream")
	default:
		return fmt.Errorf("bodies of kind %q cannot be written", plain.Line(b.Body.Kind, 40))
	}
	return err
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// bodyEntries are the arguments that make up the body: one that is all of it, or one for each field. The members of an object that is
// all of a form are its fields.
func bodyEntries(body *Body, args *arguments) (raw json.RawMessage, whole bool, entries []entry, err error) {
	if body.Arg == "" {
		for _, f := range body.Fields {
			value, ok := args.take(f.Arg)
			if ok && (body.Kind == BodyJSON || string(bytes.TrimSpace(value)) != "null") {
				entries = append(entries, entry{f, value})
			}
		}
		return nil, false, entries, nil
	}
	if raw, whole = args.take(body.Arg); !whole || body.Kind != BodyForm && body.Kind != BodyMultipart {
		return raw, whole, nil, nil
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, false, nil, badArgument(body.Arg, "has to be an object: its members are the fields of the form")
	}
	err = eachMember(raw, func(name string, member json.RawMessage) error {
		if string(member) != "null" {
			entries = append(entries, entry{Field{Arg: body.Arg, Name: name, Explode: true}, member})
		}
		return nil
	})
	return raw, true, entries, err
}

// jsonBody puts the arguments together as they came.
func jsonBody(entries []entry) []byte {
	body := []byte{'{'}
	for i, e := range entries {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, tool.Quote(e.Name)...)
		body = append(body, ':')
		body = append(body, e.raw...)
	}
	return append(body, '}')
}

// formBody writes the pairs of a form. Without a style an object is written as JSON, and so is one in a list.
func formBody(entries []entry) ([]byte, error) {
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
		pairs, err := queryPairs(e.Arg, e.Name, style, explode, raw, escapeAll)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			if p.name != escapeAll(e.Name) && own[p.name] {
				return nil, badArgument(e.Arg, "has the member %q, which is another field of the form", plain.Line(decoded(p.name), 100))
			}
			written = append(written, p.name+"="+p.value)
		}
	}
	return []byte(strings.Join(written, "&")), nil
}

// quoteObjects makes a string of an object, and of each object and list in a list: its JSON.
func quoteObjects(raw json.RawMessage) (json.RawMessage, error) {
	switch jsontext.Value(raw).Kind() {
	case '{':
		return tool.Quote([]byte(raw)), nil
	case '[':
		list := []byte{'['}
		err := eachElement(raw, func(element json.RawMessage) error {
			if kind := jsontext.Value(element).Kind(); kind == '{' || kind == '[' {
				element = tool.Quote([]byte(element))
			}
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, element...)
			return nil
		})
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

func multipartBody(entries []entry, media string) ([]byte, string, error) {
	var parts []part
	for _, e := range entries {
		left := maxWritten
		values := []json.RawMessage{e.raw}
		if jsontext.Value(e.raw).Kind() == '[' {
			values = nil
			if err := eachElement(e.raw, func(raw json.RawMessage) error { values = append(values, raw); return nil }); err != nil {
				return nil, "", err
			}
		}
		for _, raw := range values {
			p, err := onePart(e, raw)
			if err != nil {
				return nil, "", err
			}
			if left -= len(p.name) + len(p.content); left < 0 {
				return nil, "", tooMuch(e.Arg)
			}
			parts = append(parts, p)
		}
	}
	boundary := boundaryOf(parts)
	var body bytes.Buffer
	for _, p := range parts {
		fmt.Fprintf(&body, "--%s\r\nContent-Disposition: form-data; name=\"%s\"", boundary, partName(p.name))
		if p.file != "" {
			fmt.Fprintf(&body, "; filename=\"%s\"", partName(p.file))
		}
		if p.media != "" {
			fmt.Fprintf(&body, "\r\nContent-Type: %s", p.media)
		}
		body.WriteString("\r\n\r\n")
		body.Write(p.content)
		body.WriteString("\r\n")
	}
	fmt.Fprintf(&body, "--%s--\r\n", boundary)
	setDefault(&media, "multipart/form-data")
	return body.Bytes(), media + "; boundary=" + boundary, nil
}

func onePart(e entry, raw json.RawMessage) (part, error) {
	p := part{name: e.Name, media: e.Media}
	if tool.HeaderValueProblem(p.media) != "" {
		return p, fmt.Errorf("the media type of the part %q cannot be sent", plain.Line(e.Name, 100))
	}
	text, isScalar := scalar(raw)
	switch {
	case e.File:
		content, err := base64Bytes(e.Arg, raw)
		if err != nil {
			return p, err
		}
		p.content, p.file = content, e.Name
		setDefault(&p.media, "application/octet-stream")
	case isScalar && (p.media == "" || !isJSON(p.media)):
		p.content = []byte(text)
	default:
		p.content = raw
		setDefault(&p.media, "application/json")
	}
	return p, nil
}

// partName is a name as it stands in quotes (WHATWG HTML, multipart/form-data encoding algorithm).
func partName(name string) string {
	return strings.NewReplacer("\r", "%0D", "\n", "%0A", `"`, "%22", "\x00", "%00").Replace(name)
}

// boundaryOf is made of the parts, so that the same arguments are the same bytes, and so that no argument can hold it.
func boundaryOf(parts []part) string {
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

func base64Bytes(argument string, raw json.RawMessage) ([]byte, error) {
	const wanted = "want the bytes in base64 (RFC 4648, section 4)"
	text, ok := scalar(raw)
	if !ok || jsontext.Value(raw).Kind() != '"' {
		return nil, badArgument(argument, "is not a string; %s", wanted)
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, badArgument(argument, "is not base64; %s", wanted)
	}
	return content, nil
}
