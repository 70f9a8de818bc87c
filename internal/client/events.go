package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// event is one event of a text/event-stream.
type event struct {
	id   string // the last id of the stream
	name string // empty: a message
	data []byte // valid until the next event
}

// eachMessage reads an MCP stream to its end, or until take returns true. Keep-alive comments and events of other
// types than messages are skipped.
func eachMessage(r io.Reader, take func(event) (enough bool, err error)) error {
	return eachEvent(r, func(e event) (bool, error) {
		if e.name != "" && e.name != "message" {
			return false, nil
		}
		return take(e)
	})
}

// eachEvent is eachMessage for events of all types.
func eachEvent(r io.Reader, take func(event) (enough bool, err error)) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxBody)
	var e event
	for scanner.Scan() {
		line := scanner.Bytes()
		if len(line) > 0 {
			if err := e.addField(line); err != nil {
				return err
			}
			continue
		}
		if enough, err := e.endEvent(take); enough || err != nil {
			return err
		}
	}
	if enough, err := e.endEvent(take); enough || err != nil {
		return err
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return errCut
}

// addField adds one line.
func (e *event) addField(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
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
		e.name = string(value)
	}
	return nil
}

// endEvent passes the event on, if it has data, and begins the next.
func (e *event) endEvent(take func(event) (bool, error)) (enough bool, err error) {
	if len(e.data) > 0 {
		enough, err = take(*e)
	}
	*e = event{id: e.id, data: e.data[:0]}
	return enough, err
}

// readEvents reads a text/event-stream up to the answer to our request. Notifications are skipped.
func readEvents(r io.Reader) ([]byte, error) {
	var answer []byte
	err := eachMessage(r, func(e event) (bool, error) {
		if !isAnswer(e.data) {
			return false, nil
		}
		answer = bytes.Clone(e.data)
		return true, nil
	})
	return answer, err
}

// isAnswer reports whether a message is an answer, and no notification or request of the server.
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
