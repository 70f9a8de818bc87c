package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// frameReader reads lines of a child's stdout, holding at most limit bytes of
// one. Of a longer line it keeps the beginning and finds out which request it
// would have answered, so that only that one fails.
type frameReader struct {
	source *bufio.Reader
	limit  int64
}

// frame is one line. id is set when the line was too long.
type frame struct {
	data     []byte
	tooLarge bool
	id       string
}

func newFrameReader(source io.Reader, limit int64) *frameReader {
	return &frameReader{source: bufio.NewReaderSize(source, 64<<10), limit: limit}
}

// next returns the next line that is not empty. Its data is the caller's.
func (r *frameReader) next() (frame, error) {
	for {
		var f frame
		err := r.line(&f)
		f.data = bytes.TrimSpace(f.data)
		if len(f.data) > 0 || f.tooLarge {
			return f, nil
		}
		if err != nil {
			return f, fmt.Errorf("read the server's output: %w", err)
		}
	}
}

func (r *frameReader) line(f *frame) error {
	var scan *idScanner
	for {
		piece, err := r.source.ReadSlice('\n')
		switch {
		case scan != nil:
			scan.feed(piece)
		case int64(len(f.data)+len(piece)) <= r.limit:
			f.data = append(f.data, piece...)
		default:
			scan = &idScanner{}
			scan.feed(f.data)
			scan.feed(piece)
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

// idScanner finds the value of the member "id" of the JSON object whose text it
// is fed in pieces, without keeping the text.
type idScanner struct {
	id string

	depth           int
	inString, slash bool
	value           bool   // after the colon of a member of the outer object
	name, text      []byte // bounded
}

func (s *idScanner) feed(p []byte) {
	for len(p) > 0 {
		if s.inString && !s.slash && s.depth > 1 {
			p = p[plainText(p):]
			if len(p) == 0 {
				return
			}
		}
		if s.inString {
			s.stringByte(p[0])
		} else {
			s.tokenByte(p[0])
		}
		p = p[1:]
	}
}

// plainText is the number of bytes before the first that matters in a string.
func plainText(p []byte) int {
	n := len(p)
	if quote := bytes.IndexByte(p, '"'); quote >= 0 {
		n = quote
	}
	if slash := bytes.IndexByte(p[:n], '\\'); slash >= 0 {
		n = slash
	}
	return n
}

func (s *idScanner) tokenByte(b byte) {
	switch b {
	case '"':
		s.inString = true
		if s.depth == 1 && !s.value {
			s.text = s.text[:0]
		}
		s.keep(b)
	case '{', '[':
		s.depth++
	case '}', ']':
		if s.depth == 1 {
			s.member()
		}
		s.depth--
	case ':':
		if s.depth == 1 {
			s.name, s.text, s.value = append(s.name[:0], s.text...), s.text[:0], true
		}
	case ',':
		if s.depth == 1 {
			s.member()
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(b)
	}
}

func (s *idScanner) stringByte(b byte) {
	s.keep(b)
	switch {
	case s.slash:
		s.slash = false
	case b == '\\':
		s.slash = true
	case b == '"':
		s.inString = false
	}
}

// keep collects names and values of the outer object, as far as an id goes.
func (s *idScanner) keep(b byte) {
	if s.depth == 1 && len(s.text) < 64 {
		s.text = append(s.text, b)
	}
}

// member ends a member of the outer object.
func (s *idScanner) member() {
	if s.value && string(s.name) == `"id"` {
		s.id = string(s.text)
	}
	s.text, s.value = s.text[:0], false
}
