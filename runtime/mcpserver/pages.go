package mcpserver

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// A page of a list ends after so many entries, or bytes: ordinary lists are one.
const (
	pageEntries = 1000
	pageBytes   = 1 << 20
)

// pages are a list, cut: each is `"tools":[…]`, with the cursor of the next. Cursors name a page of this very list: of one that
// has changed since, they are unknown.
type pages struct {
	digest [cursorDigest]byte
	list   [][]byte
}

const cursorDigest = 12 // bytes

// paged cuts a list.
func paged(member string, entries [][]byte) *pages {
	p := &pages{}
	hash := sha256.New()
	hash.Write([]byte(member))
	for _, entry := range entries {
		hash.Write(entry) // each is a JSON object, so where one ends is beyond doubt
	}
	copy(p.digest[:], hash.Sum(nil))
	for len(entries) > 0 || len(p.list) == 0 {
		count, size := 0, 0
		for count < len(entries) && count < pageEntries && (count == 0 || size+len(entries[count]) <= pageBytes) {
			size += len(entries[count])
			count++
		}
		p.list = append(p.list, p.render(member, entries[:count], size, count < len(entries)))
		entries = entries[count:]
	}
	return p
}

func (p *pages) render(member string, entries [][]byte, size int, more bool) []byte {
	page := make([]byte, 0, size+len(entries)+len(member)+64)
	page = append(append(append(page, '"'), member...), `":[`...)
	for i, entry := range entries {
		if i > 0 {
			page = append(page, ',')
		}
		page = append(page, entry...)
	}
	page = append(page, ']')
	if more {
		page = append(append(append(page, `,"nextCursor":"`...), p.cursor(len(p.list)+1)...), '"')
	}
	return page
}

// cursor names a page.
func (p *pages) cursor(number int) string {
	text := binary.BigEndian.AppendUint32(append([]byte(nil), p.digest[:]...), uint32(number)) //nolint:gosec // G115: pages are few
	return base64.RawURLEncoding.EncodeToString(text)
}

// page finds the page that a cursor names; "": the first.
func (p *pages) page(cursor string) ([]byte, bool) {
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
