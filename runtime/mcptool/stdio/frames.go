package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// frameReader reads lines of a child's stdout. It holds at most limit bytes of a line. Of a longer line it keeps the beginning, and finds
// the id of the request that the line answers, so that only that request fails.
type frameReader struct {
	source *bufio.Reader
	limit  int64
}

// frame is a line. id is set if the line was too long.
type frame struct {
	data     []byte
	tooLarge bool
	id       string
}

func newFrameReader(source io.Reader, limit int64) *frameReader {
	return &frameReader{source: bufio.NewReaderSize(source, 64<<10), limit: limit}
}

// nextFrame returns the next line that is not empty. The caller owns its data.
func (r *frameReader) nextFrame() (frame, error) {
	for {
		var f frame
		err := r.readLine(&f)
		f.data = bytes.TrimSpace(f.data)
		if len(f.data) > 0 || f.tooLarge {
			return f, nil
		}
		if err != nil {
			return f, fmt.Errorf("read the server's output: %w", err)
		}
	}
}

func (r *frameReader) readLine(f *frame) error {
	var scan *idScanner
	for {
		piece, err := r.source.ReadSlice('\n')
		switch {
		case scan != nil:
			scan.scanPiece(piece)
		case int64(len(f.data)+len(piece)) <= r.limit:
			f.data = append(f.data, piece...)
		default:
			scan = &idScanner{}
			scan.scanPiece(f.data)
			scan.scanPiece(piece)
			f.tooLarge = true
			f.data = append(f.data, piece...)
			f.data = bytes.Clone(f.data[:min(len(f.data), tool.MaxEvidence)])
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if scan != nil {
			f.id = scan.id
		}
		return err
	}
}

// idScanner finds the value of the member "id" of a JSON object. It gets the text in pieces and does not keep it.
type idScanner struct {
	id string

	depth           int
	inString, slash bool
	value           bool   // after the colon of a member of the outer object
	name, text      []byte // bounded
}

func (s *idScanner) scanPiece(p []byte) {
	for len(p) > 0 {
		if s.inString && !s.slash && s.depth > 1 {
			p = p[countPlain(p):]
			if len(p) == 0 {
				return
			}
		}
		if s.inString {
			s.scanString(p[0])
		} else {
			s.scanToken(p[0])
		}
		p = p[1:]
	}
}

// countPlain returns the number of bytes before the first quote or backslash.
func countPlain(p []byte) int {
	n := len(p)
	if quote := bytes.IndexByte(p, '"'); quote >= 0 {
		n = quote
	}
	if slash := bytes.IndexByte(p[:n], '\\'); slash >= 0 {
		n = slash
	}
	return n
}

func (s *idScanner) scanToken(b byte) {
	switch b {
	case '"':
		s.inString = true
		if s.depth == 1 && !s.value {
			s.text = s.text[:0]
		}
		s.keepByte(b)
	case '{', '[':
		s.depth++
	case '}', ']':
		if s.depth == 1 {
			s.endMember()
		}
		s.depth--
	case ':':
		if s.depth == 1 {
			s.name, s.text, s.value = append(s.name[:0], s.text...), s.text[:0], true
		}
	case ',':
		if s.depth == 1 {
			s.endMember()
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.keepByte(b)
	}
}

func (s *idScanner) scanString(b byte) {
	s.keepByte(b)
	switch {
	case s.slash:
		s.slash = false
	case b == '\\':
		s.slash = true
	case b == '"':
		s.inString = false
	}
}

// keepByte collects the names and values of the outer object, up to the length of an id.
func (s *idScanner) keepByte(b byte) {
	if s.depth == 1 && len(s.text) < 64 {
		s.text = append(s.text, b)
	}
}

// endMember ends a member of the outer object.
func (s *idScanner) endMember() {
	if s.value && string(s.name) == `"id"` {
		s.id = string(s.text)
	}
	s.text, s.value = s.text[:0], false
}
