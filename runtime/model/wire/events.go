package wire

import (
	"bufio"
	"bytes"
	"io"
	"iter"
)

// maxEventLine bounds a line of a stream of events, in bytes.
const maxEventLine = 32 << 20

// Events reads the data of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). The
// iterator ends with the stream; an error comes last.
func Events(stream io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, maxEventLine)
		var data []byte
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) == 0 && data != nil {
				if !yield(data, nil) {
					return
				}
				data = nil
				continue
			}
			if name, value, _ := bytes.Cut(line, []byte(":")); string(name) == "data" {
				data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}
