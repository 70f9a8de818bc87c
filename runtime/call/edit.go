package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// EditError says what is wrong with the arguments that a reviewer gave.
type EditError struct {
	Problems []tool.Problem
	Cause    error // a *[DoorError]; then there are no problems
}

func (e *EditError) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	return "arguments: " + listProblems(e.Problems)
}

// Unwrap makes it an [ErrEdit].
func (e *EditError) Unwrap() error { return ErrEdit }

// edit is what a reviewer makes of a call.
type edit struct {
	arguments json.RawMessage
	request   json.RawMessage // that they make
	digest    approval.Digest
	changed   []string // names of the members that differ: what was edited, without the values
	late      bool     // the call was not parked when it was read; nothing is approved by this
}

// CheckEdit says what a reviewer's arguments would make of a parked call: the arguments as they would be sent.
// Errors: ErrNotFound, *[EditError].
func (s *Service) CheckEdit(ctx context.Context, c *Call, arguments []byte) (json.RawMessage, error) {
	clean, err := CleanArguments(arguments)
	if refused := (*DoorError)(nil); errors.As(err, &refused) {
		return nil, &EditError{Cause: refused}
	}
	if err != nil {
		return nil, err
	}
	if err := file.CheckEdit(c.Arguments, clean, len(c.Files) > 0); err != nil {
		return nil, editProblem(err)
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return nil, err
	}
	schemas, err := s.schemas.get(definition)
	if err != nil {
		return nil, err
	}
	if problems := schemas.ValidateInput(clean); len(problems) > 0 {
		return nil, &EditError{Problems: problems}
	}
	if _, err := s.OutgoingWith(ctx, c, clean); err != nil {
		return nil, err
	}
	return clean, nil
}

// edited makes the envelope of an edited call, which the decision is about from then on. Nil: nothing was edited.
// Whether the call still is what the reviewer saw, its digest tells when the approval's lock is held.
func (s *Service) edited(ctx context.Context, d *Decision) (*edit, error) {
	if d.Arguments == nil {
		return nil, nil
	}
	c, err := s.load(ctx, d.CallID)
	if errors.Is(err, ErrNotFound) {
		return nil, approval.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if c.Status != Parked {
		return &edit{late: true}, nil // the decision finds out why
	}
	clean, err := s.CheckEdit(ctx, c, d.Arguments)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(clean, c.Arguments) {
		return nil, nil
	}
	changed, err := changedMembers(c.Arguments, clean)
	if err != nil {
		return nil, err
	}
	c.Arguments = clean
	if err := s.redraw(ctx, c); err != nil {
		return nil, err
	}
	return &edit{arguments: clean, request: c.request, digest: c.envelope().Digest(), changed: changed}, nil
}

const maxChanged = 50

// changedMembers are the names of those members of two objects that differ, in the order of the second.
func changedMembers(before, after []byte) ([]string, error) {
	old, _, err := topMembers(before)
	if err != nil {
		return nil, err
	}
	present, order, err := topMembers(after)
	if err != nil {
		return nil, err
	}
	changed := []string{}
	for _, name := range order {
		if was, ok := old[name]; !ok || !bytes.Equal(was, present[name]) {
			changed = append(changed, clip(name))
		}
		delete(old, name)
	}
	gone := make([]string, 0, len(old))
	for name := range old {
		gone = append(gone, clip(name))
	}
	slices.Sort(gone)
	changed = append(changed, gone...)
	return changed[:min(len(changed), maxChanged)], nil
}

func topMembers(object []byte) (map[string][]byte, []string, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, nil, fmt.Errorf("read arguments: %w", err)
	}
	members, order := map[string][]byte{}, []string{}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, nil, fmt.Errorf("read arguments: %w", err)
		}
		text := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, nil, fmt.Errorf("read arguments: %w", err)
		}
		members[text] = bytes.Clone(value)
		order = append(order, text)
	}
	return members, order, nil
}
