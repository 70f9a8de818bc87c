package httptool

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxSelecting is how many selections run at the same time.
const maxSelecting = 4

// selected is what the binding's program makes of a JSON answer. When it fails, the call still succeeded: all of the answer is told, with
// a note, and nobody is led to make the call again.
func (x *exchange) selected(answer jsontext.Value) []block {
	selection, err := tool.ParseSelect(x.binding.Select)
	if err != nil {
		return unselected(answer, "the skill's select "+err.Error())
	}
	ctx, cancel := context.WithTimeout(x.ctx, tool.MaxSelectTime)
	defer cancel()
	made, err := x.source.selecting.run(ctx, func() ([]byte, error) { return selection.Run(ctx, answer) })
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return unselected(answer, fmt.Sprintf("the skill's select was given up: it has %s, and what the call has left", tool.MaxSelectTime))
	case err != nil:
		return unselected(answer, "the skill's select failed: "+err.Error())
	case len(made) == 0:
		return []block{textBlock("[The call succeeded, and the skill's select makes nothing of its answer.]")}
	}
	return []block{textBlock(string(made))}
}

func unselected(answer jsontext.Value, why string) []block {
	return []block{textBlock(string(answer)), textBlock("[The call succeeded. This is all of its answer: " + why + "]")}
}

// bounded runs what cannot be stopped, as many at a time as it has places.
type bounded chan struct{}

// run waits for a place, and for what it runs, until ctx is over. What is given up then keeps its place until it really ends: however
// long one step of a program takes, no more of them than there are places go on.
func (b bounded) run(ctx context.Context, do func() ([]byte, error)) ([]byte, error) {
	select {
	case b <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type outcome struct {
		made []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-b }()
		defer func() {
			if problem := recover(); problem != nil { // of a goroutine nobody else recovers it
				done <- outcome{nil, errors.New(plain.Line(fmt.Sprint(problem), 200))}
			}
		}()
		made, err := do()
		done <- outcome{made, err}
	}()
	select {
	case o := <-done:
		return o.made, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
