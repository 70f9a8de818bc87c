package httptool

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// readText returns a body in UTF-8 with the skill's secrets masked. False: it is not text.
func (x *exchange) readText(body []byte, media, charset string) (string, bool) {
	whole := body
	if int64(len(body)) == x.limit { // the limit may have cut a character
		whole = tool.WholeCharacters(body)
	}
	if !mayBeText(whole, media, charset) {
		return "", false
	}
	if charset != "" && !strings.EqualFold(charset, "utf-8") {
		if e, err := htmlindex.Get(charset); err == nil {
			if converted, err := e.NewDecoder().Bytes(body); err == nil {
				return x.maskText(string(converted)), true
			}
		}
	}
	if bytes.HasPrefix(body, []byte{0xFE, 0xFF}) || bytes.HasPrefix(body, []byte{0xFF, 0xFE}) {
		if converted, err := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder().Bytes(body); err == nil {
			return x.maskText(string(converted)), true
		}
		whole = body
	}
	whole = bytes.TrimPrefix(whole, []byte("\uFEFF"))
	return x.maskText(strings.ToValidUTF8(string(whole), "\uFFFD")), true
}

// mayBeText reports whether a body is text, by its media type or, if that is missing or says nothing, by its bytes. A charset alone proves
// nothing: servers also send it with binary types.
func mayBeText(body []byte, media, charset string) bool {
	switch {
	case strings.HasPrefix(media, "text/"), openapi.IsJSON(media), strings.HasSuffix(media, "+xml"):
		return true
	}
	switch media {
	case "application/xml", "application/javascript", "application/x-www-form-urlencoded", "application/yaml", "application/x-yaml",
		"application/x-ndjson", "application/jsonl", "application/graphql", "application/toml", "application/sql", "application/csv":
		return true
	}
	for _, kind := range []string{"image/", "audio/", "video/", "font/"} {
		if strings.HasPrefix(media, kind) {
			return false
		}
	}
	return (charset != "" || media == "" || media == "application/octet-stream") && isText(body, charset)
}

// isText reports whether a body is valid text in a charset, UTF-8 if that is unknown, without control characters that texts do not use.
func isText(body []byte, charset string) bool {
	valid := utf8.Valid(body)
	if e, err := htmlindex.Get(charset); err == nil && !strings.EqualFold(charset, "utf-8") {
		converted, err := e.NewDecoder().Bytes(body)
		body, valid = converted, err == nil && !bytes.ContainsRune(converted, utf8.RuneError)
	}
	return valid && !bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r) })
}

// secretForms returns the secrets of a request in each form in which an answer may quote them, the longest first.
func (o *outboundRequest) secretForms() []string {
	var all []string
	for _, secret := range o.secrets {
		if secret == "" {
			continue
		}
		all = append(all, secret, url.QueryEscape(secret), url.PathEscape(secret), escapeAll(secret))
		if quoted := tool.Quote(secret); len(quoted) > 2 {
			all = append(all, string(quoted[1:len(quoted)-1]))
		}
		if quoted, err := json.Marshal(secret); err == nil { // with <, > and & escaped
			all = append(all, string(quoted[1:len(quoted)-1]))
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(all)
}

// maskText masks secrets in a text.
func (x *exchange) maskText(text string) string {
	for _, secret := range x.secrets {
		text = strings.ReplaceAll(text, secret, skillauth.Hidden)
	}
	return text
}

// maskBytes masks secrets in a body.
func (x *exchange) maskBytes(body []byte) []byte {
	for _, secret := range x.secrets {
		body = bytes.ReplaceAll(body, []byte(secret), []byte(skillauth.Hidden))
	}
	return body
}

// maskMedia returns a media type, or "" if it contains a secret. The media type is in lower case.
func (x *exchange) maskMedia(media string) string {
	for _, secret := range x.secrets {
		if strings.Contains(media, strings.ToLower(secret)) {
			return ""
		}
	}
	return media
}
