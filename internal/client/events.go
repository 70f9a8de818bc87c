package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// event is one event of a text/event-stream, as far as MCP uses them.
type event struct {
	id   string
	data []byte // valid until the next event
}

// eachEvent reads a stream to its end, or until take says that it has seen enough. Comments, which
// keep the connection alive, are passed over, and so are events of other types than messages.
func eachEvent(r io.Reader, take func(event) (enough bool, err error)) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxBody)
	var e event
	message := true
	end := func() (bool, error) {
		defer func() { e, message = event{id: e.id, data: e.data[:0]}, true }()
		if len(e.data) == 0 || !message {
			return false, nil
		}
		return take(e)
	}
	for scanner.Scan() {
		line := scanner.Bytes()
		if len(line) == 0 {
			if enough, err := end(); enough || err != nil {
				return err
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			if len(e.data) > maxBody {
				return fmt.Errorf("read answer: it has more than %d bytes", maxBody)
			}
		case "id":
			e.id = string(value)
		case "event":
			message = string(value) == "message" || len(value) == 0
		}
	}
	if enough, err := end(); enough || err != nil {
		return err
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return errCut
}

// readEvents reads a text/event-stream up to the answer of our request.
// Notifications are passed over.
func readEvents(r io.Reader) ([]byte, error) {
	var answer []byte
	err := eachEvent(r, func(e event) (bool, error) {
		if !isAnswer(e.data) {
			return false, nil
		}
		answer = bytes.Clone(e.data)
		return true, nil
	})
	return answer, err
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
