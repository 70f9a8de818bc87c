package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// readEvents reads a text/event-stream up to the answer of our request.
// Comments, which keep the connection alive, and notifications are passed over.
func readEvents(r io.Reader) ([]byte, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxBody)
	var data []byte
	for scanner.Scan() {
		line := scanner.Bytes()
		if len(line) == 0 {
			if isAnswer(data) {
				return data, nil
			}
			data = nil
			continue
		}
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(text, []byte(" "))...)
			if len(data) > maxBody {
				return nil, fmt.Errorf("read answer: it has more than %d bytes", maxBody)
			}
		}
	}
	if isAnswer(data) {
		return data, nil
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errCut, err)
	}
	return nil, errCut
}

// isAnswer tells an answer from a notification or a request of the server.
func isAnswer(message []byte) bool {
	if len(message) == 0 {
		return false
	}
	var m struct {
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	return json.Unmarshal(message, &m) == nil && m.Method == nil && (m.Result != nil || m.Error != nil)
}
