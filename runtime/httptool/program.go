package httptool

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/selection"
)

// maxPrograms is the number of jq programs that run at the same time.
const maxPrograms = 4

// runSelect runs the binding's jq program on a JSON answer. If the program fails, the call still succeeded: the result is the whole answer with
// a note, so that no client repeats the call.
func (x *exchange) runSelect(answer jsontext.Value) []block {
	program, err := selection.Parse(x.binding.Select)
	if err != nil {
		return wholeAnswer(answer, "the skill's select "+err.Error())
	}
	ctx, cancel := context.WithTimeout(x.ctx, selection.MaxTime)
	defer cancel()
	made, err := x.source.programs.runLimited(ctx, func() ([]byte, error) { return program.Run(ctx, answer) })
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return wholeAnswer(answer, fmt.Sprintf("the skill's select was given up: it has %s, and what the call has left", selection.MaxTime))
	case err != nil:
		return wholeAnswer(answer, "the skill's select failed: "+err.Error())
	case len(made) == 0:
		return []block{textBlock("[The call succeeded, and the skill's select makes nothing of its answer.]")}
	}
	return []block{textBlock(string(made))}
}

func wholeAnswer(answer jsontext.Value, why string) []block {
	return []block{textBlock(string(answer)), textBlock("[The call succeeded. This is all of its answer: " + why + "]")}
}

// limiter limits how many functions run at the same time. Its capacity is the limit.
type limiter chan struct{}

// runLimited waits for a free slot and for the function until ctx is done. An abandoned function keeps its slot until it returns, so the
// limit also holds for programs whose steps take long.
func (l limiter) runLimited(ctx context.Context, do func() ([]byte, error)) ([]byte, error) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type outcome struct {
		made []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-l }()
		defer func() {
			if problem := recover(); problem != nil { // a panic would end the process
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
