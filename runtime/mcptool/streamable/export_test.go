package streamable

import (
	"bufio"
	"io"
)

// ReadEvents reads the messages of an event stream until it ends or breaks.
func ReadEvents(source io.Reader, limit int64) (messages []string, lastID string, err error) {
	r := &eventReader{source: bufio.NewReaderSize(source, 16), limit: limit}
	for {
		data, err := r.nextEvent()
		if err != nil {
			return messages, r.lastID, err
		}
		messages = append(messages, string(data))
	}
}
