package mcptool

import (
	"bufio"
	"io"
)

// ReadEvents reads the messages of a stream of events until it ends or breaks.
func ReadEvents(source io.Reader, limit int64) (messages []string, lastID string, err error) {
	r := &eventReader{source: bufio.NewReaderSize(source, 16), limit: limit}
	for {
		data, err := r.next()
		if err != nil {
			return messages, r.lastID, err
		}
		messages = append(messages, string(data))
	}
}

// Line is a line of a child's output, or the id that one had that was too long.
type Line struct {
	Text, ID string
	TooLarge bool
}

// ReadLines reads a child's output to its end.
func ReadLines(source io.Reader, limit int64) []Line {
	r := newFrameReader(source, limit)
	var lines []Line
	for {
		f, err := r.next()
		if err != nil {
			return lines
		}
		lines = append(lines, Line{Text: string(f.data), ID: f.id, TooLarge: f.tooLarge})
	}
}
