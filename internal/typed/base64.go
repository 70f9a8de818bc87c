package typed

import (
	"bytes"
	"encoding/base64"
	"mime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Encoded is data in base64.
type Encoded struct {
	Size     int    // bytes of the whole data
	Type     string // media type by the first bytes, text/plain for text, or "" if it is unknown
	Declared string // the media type or file name that a sibling or the data URL declares, or ""
	Text     string // the decoded text, at most its first MaxScanned bytes, or ""
	Inner    *Value // the recognized text; nil: no text
}

// shortEncoded is the number of bytes of the shortest text that may be base64.
const shortEncoded = 12

func (m member) recognizeBase64(v *Value, seen string, depth int) bool {
	body, declared := v.Text, ""
	if strings.HasPrefix(seen, "data:") {
		comma := strings.IndexByte(seen[:min(len(seen), 256)], ',')
		if comma < 0 || !strings.HasSuffix(seen[:comma], ";base64") {
			return false
		}
		body, declared = body[comma+1:], strings.TrimSuffix(seen[len("data:"):comma], ";base64")
	}
	head, size, ok := decodeHead(body)
	if !ok {
		return false
	}
	isText := looksLikeText(head)
	found := detectType(head)
	switch {
	case found != "" && found != typeText:
	case isText && size >= shortEncoded/2 && found == "":
		found = typeText
	case declared != "", m.isNamed(base64Names):
	case len(body) >= 40 && (m.isNamed(encodedWords) || strings.HasSuffix(strings.TrimSpace(body), "=")) && isMixed(body):
	default:
		return false
	}
	if declared == "" {
		declared = m.siblingText("mime_type", "mimeType", "mime", "content_type", "contentType", "media_type", "mediaType",
			"filename", "file_name", "fileName", "type", "name", "file", "path")
	}
	e := &Encoded{Size: size, Type: found, Declared: declared}
	v.Kind, v.Base64 = Base64, e
	if want := normalizeType(declared); want != "" && contradictsType(want, found, isText) {
		v.addWarning(TypeMismatch, declared, found)
	}
	if !isText {
		return true
	}
	e.Text = string(head)
	if depth+1 < maxDecoded {
		inner := member{siblings: m.siblings}.recognizeString(e.Text, depth+1)
		e.Inner = &inner
		if inner.Kind == Base64 {
			nested := 2
			for within := inner.Base64.Inner; within != nil && within.Kind == Base64; within = within.Base64.Inner {
				nested++
			}
			v.addWarning(NestedEncoding, strconv.Itoa(nested))
		}
		for _, w := range inner.Warnings {
			if w.Code != NestedEncoding {
				v.addWarning(w.Code, w.Args...)
			}
		}
	}
	return true
}

// decodeHead decodes the first MaxScanned bytes of base64 and returns the size of all data.
func decodeHead(text string) (head []byte, size int, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) < shortEncoded {
		return nil, 0, false
	}
	body := strings.TrimRight(text, "=")
	if len(text)-len(body) > 2 {
		return nil, 0, false
	}
	digits, breaks, isHex, isURL, isStandard := 0, 0, true, false, false
	for i := range len(body) {
		switch c := body[i]; {
		case c == '\n' || c == '\r':
			breaks++
			continue
		case c == '-' || c == '_':
			isURL, isHex = true, false
		case c == '+' || c == '/':
			isStandard, isHex = true, false
		case isDigit(c):
		case isLetter(c):
			isHex = isHex && c|0x20 <= 'f'
		default:
			return nil, 0, false
		}
		digits++
	}
	if isURL && isStandard || isHex || digits%4 == 1 || len(text) != len(body) && (digits+len(text)-len(body))%4 != 0 {
		return nil, 0, false
	}
	encoding := base64.RawStdEncoding
	if isURL {
		encoding = base64.RawURLEncoding
	}
	part := body
	if len(part) > MaxScanned {
		part = part[:MaxScanned]
	}
	if breaks > 0 {
		part = strings.NewReplacer("\n", "", "\r", "").Replace(part)
	}
	if len(part) < digits {
		part = part[:len(part)/4*4]
	}
	head, err := encoding.DecodeString(part)
	return head, digits * 3 / 4, err == nil
}

// isMixed reports whether a text has upper case, lower case and digits, as encoded data has.
func isMixed(text string) bool {
	text = text[:min(len(text), 1024)]
	return strings.ContainsFunc(text, unicode.IsUpper) && strings.ContainsFunc(text, unicode.IsLower) && strings.ContainsFunc(text, unicode.IsDigit)
}

// looksLikeText reports whether data is UTF-8 without control characters. The last character may be cut.
func looksLikeText(data []byte) bool {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return i > 0 && len(data)-i < utf8.UTFMax && !utf8.FullRune(data[i:])
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != 0x1b, r >= 0x7f && !unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r):
			return false
		}
		i += size
	}
	return len(data) > 0
}

const (
	typeText   = "text/plain"
	typeZIP    = "application/zip"
	typeScript = "text/x-shellscript"
)

// magic are the first bytes of types of data.
var magic = []struct{ prefix, mediaType string }{ //nolint:gochecknoglobals // a table
	{"%PDF-", "application/pdf"},
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"\xff\xd8\xff", "image/jpeg"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
	{"PK\x03\x04", typeZIP},
	{"PK\x05\x06", typeZIP},
	{"\x1f\x8b", "application/gzip"},
	{"\x7fELF", "application/x-elf"},
	{"\xcf\xfa\xed\xfe", "application/x-mach-binary"},
	{"\xce\xfa\xed\xfe", "application/x-mach-binary"},
	{"\xca\xfe\xba\xbe", "application/java-vm"},
	{"\x00asm", "application/wasm"},
	{"#!", typeScript},
	{"{\\rtf", "application/rtf"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"},
	{"SQLite format 3\x00", "application/vnd.sqlite3"},
	{"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
	{"Rar!\x1a\x07", "application/vnd.rar"},
	{"BZh", "application/x-bzip2"},
	{"\xfd7zXZ\x00", "application/x-xz"},
	{"II*\x00", "image/tiff"},
	{"MM\x00*", "image/tiff"},
	{"OggS", "audio/ogg"},
	{"ID3", "audio/mpeg"},
	{"L\x00\x00\x00\x01\x14\x02\x00", "application/x-ms-shortcut"},
	{"<?xml", "application/xml"},
	{"<svg", "image/svg+xml"},
}

// detectType returns the media type by the first bytes, or "".
func detectType(data []byte) string {
	for _, one := range magic {
		if bytes.HasPrefix(data, []byte(one.prefix)) {
			return one.mediaType
		}
	}
	switch {
	case bytes.HasPrefix(data, []byte("MZ")) && len(data) > 64 && !looksLikeText(data):
		return "application/vnd.microsoft.portable-executable"
	case bytes.HasPrefix(data, []byte("BM")) && len(data) > 26 && !looksLikeText(data):
		return "image/bmp"
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	case len(data) > 12 && string(data[4:8]) == "ftyp":
		return "video/mp4"
	}
	lower := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 256)]))
	if bytes.HasPrefix(lower, []byte("<!doctype html")) || bytes.HasPrefix(lower, []byte("<html")) {
		return "text/html"
	}
	return ""
}

// extensions has the media types of file names.
var extensions = map[string]string{ //nolint:gochecknoglobals // a table
	"pdf": "application/pdf", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "bmp": "image/bmp",
	"tif": "image/tiff", "tiff": "image/tiff", "svg": "image/svg+xml", "zip": typeZIP, "docx": typeZIP, "xlsx": typeZIP, "pptx": typeZIP, "odt": typeZIP,
	"ods": typeZIP, "jar": typeZIP, "epub": typeZIP, "gz": "application/gzip", "tgz": "application/gzip", "txt": typeText, "csv": typeText, "md": typeText,
	"json": typeText, "yaml": typeText, "yml": typeText, "log": typeText, "xml": "application/xml", "html": "text/html", "htm": "text/html",
	"doc": "application/x-ole-storage", "xls": "application/x-ole-storage", "rtf": "application/rtf", "mp4": "video/mp4", "mp3": "audio/mpeg",
	"sh": typeScript, "exe": "application/vnd.microsoft.portable-executable",
}

// normalizeType returns the media type that a media type or a file name declares, in the words of detectType, or "".
func normalizeType(declared string) string {
	if dot := strings.LastIndexByte(declared, '.'); dot >= 0 && !strings.Contains(declared, "/") || dot > strings.LastIndexByte(declared, '/') && extensions[strings.ToLower(declared[dot+1:])] != "" && !strings.HasPrefix(declared, "application/") {
		return extensions[strings.ToLower(declared[dot+1:])]
	}
	mediaType, _, err := mime.ParseMediaType(declared)
	if err != nil || !strings.Contains(mediaType, "/") {
		return extensions[strings.ToLower(declared)]
	}
	switch {
	case strings.HasPrefix(mediaType, "application/vnd.openxmlformats"), strings.HasPrefix(mediaType, "application/vnd.oasis"), mediaType == "application/x-zip-compressed":
		return typeZIP
	case mediaType == "application/msword", mediaType == "application/vnd.ms-excel":
		return "application/x-ole-storage"
	case mediaType == "text/xml":
		return "application/xml"
	case mediaType == "application/json", mediaType == "text/csv", mediaType == "text/markdown":
		return typeText
	case mediaType == "image/jpg":
		return "image/jpeg"
	case mediaType == "application/x-gzip":
		return "application/gzip"
	}
	return mediaType
}

// contradictsType reports whether data is not of the declared type. It is silent about types whose first bytes it does not know.
func contradictsType(want, found string, isText bool) bool {
	switch {
	case want == found:
		return false
	case strings.HasPrefix(want, "text/"), want == "application/xml", want == "image/svg+xml":
		return !isText || found == typeScript && want == typeText
	case found != "" && found != typeText && want != "application/octet-stream":
		return true
	}
	for _, one := range magic {
		if one.mediaType == want {
			return true
		}
	}
	return false
}
