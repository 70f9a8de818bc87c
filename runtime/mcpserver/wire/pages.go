package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// The limits of a page: ordinary lists have one.
const (
	pageEntries = 1000
	pageBytes   = 1 << 20
)

// Pages is a list in pages: each is `"tools":[…]`, with the cursor of the next. A cursor is valid for this list only, and
// unknown once the list has changed.
type Pages struct {
	digest [cursorDigest]byte
	list   [][]byte
}

const cursorDigest = 12 // bytes

// NewPages divides a list, the member of a result, into pages.
func NewPages(member string, entries [][]byte) *Pages {
	p := &Pages{}
	hash := sha256.New()
	hash.Write([]byte(member))
	for _, entry := range entries {
		hash.Write(entry) // JSON objects are self-delimiting
	}
	copy(p.digest[:], hash.Sum(nil))
	for len(entries) > 0 || len(p.list) == 0 {
		count, size := 0, 0
		for count < len(entries) && count < pageEntries && (count == 0 || size+len(entries[count]) <= pageBytes) {
			size += len(entries[count])
			count++
		}
		page := append(make([]byte, 0, size+count+len(member)+64), `"`+member+`":[`...)
		page = append(append(page, bytes.Join(entries[:count], []byte(","))...), ']')
		entries = entries[count:]
		if len(entries) > 0 {
			cursor := binary.BigEndian.AppendUint32(bytes.Clone(p.digest[:]), uint32(len(p.list)+1)) //nolint:gosec // G115: pages are few
			page = append(page, `,"nextCursor":"`+base64.RawURLEncoding.EncodeToString(cursor)+`"`...)
		}
		p.list = append(p.list, page)
	}
	return p
}

// Find returns the page that a cursor names; "": the first.
func (p *Pages) Find(cursor string) ([]byte, bool) {
	if cursor == "" {
		return p.list[0], true
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(text) != cursorDigest+4 || [cursorDigest]byte(text) != p.digest {
		return nil, false
	}
	number := binary.BigEndian.Uint32(text[cursorDigest:])
	if number == 0 || uint64(number) >= uint64(len(p.list)) {
		return nil, false
	}
	return p.list[number], true
}
