package scripted_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	odd, busy := errors.New("odd"), &model.Error{Retryable: true, Message: "busy"}
	answer := &model.Response{Parts: []model.Part{
		model.TextPart("One, two, three, four, five, six, seven."), {Call: &model.ToolCall{Name: "clock"}}, {Call: &model.ToolCall{ID: "mine", Name: "clock"}},
	}}
	p := scripted.Provider{
		"greet": func(r *model.Request) (*model.Response, error) { return answer, nil },
		"short": func(*model.Request) (*model.Response, error) {
			return &model.Response{Parts: []model.Part{model.TextPart("Hi")}}, nil
		},
		"stops": func(*model.Request) (*model.Response, error) {
			return &model.Response{Stop: model.StopRefusal, Model: "other"}, nil
		},
		"odd":    func(*model.Request) (*model.Response, error) { return nil, odd },
		"busy":   func(*model.Request) (*model.Response, error) { return nil, busy },
		"nobody": func(*model.Request) (*model.Response, error) { return nil, nil },
	}
	var pieces []string
	got, err := p.Generate(t.Context(), &model.Request{Model: "greet"}, func(d model.Delta) { pieces = append(pieces, d.Text) })
	if err != nil || got.Stop != model.StopToolCalls || got.Model != "greet" || got.Parts[1].Call.ID == "" || got.Parts[2].Call.ID != "mine" {
		t.Errorf("%+v, %v", got, err)
	}
	if len(pieces) != 4 || strings.Join(pieces, "") != answer.Parts[0].Text.Text || answer.Parts[1].Call.ID != "" || answer.Stop != "" {
		t.Errorf("pieces %q, the script's own %+v", pieces, answer)
	}
	if got, err := p.Generate(t.Context(), &model.Request{Model: "short"}, nil); err != nil || got.Stop != model.StopEnd {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := p.Generate(t.Context(), &model.Request{Model: "stops"}, nil); err != nil || got.Stop != model.StopRefusal || got.Model != "other" {
		t.Errorf("%+v, %v", got, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx       context.Context
		name      string
		cause     error
		retryable bool
		gist      string
	}{
		{t.Context(), "odd", odd, false, "the script failed: odd"},
		{t.Context(), "busy", nil, true, "busy"},
		{t.Context(), "nobody", nil, false, "no answer"},
		{t.Context(), "missing", nil, false, `no script "missing"`},
		{gone, "short", context.Canceled, false, "canceled"},
	} {
		_, err := p.Generate(c.ctx, &model.Request{Model: c.name}, nil)
		failed, ok := errors.AsType[*model.Error](err)
		if !ok || failed.Retryable != c.retryable || !strings.Contains(failed.Message, c.gist) || (c.cause != nil && !slices.Contains([]error{c.cause}, failed.Err)) {
			t.Errorf("%s: %#v", c.name, err)
		}
	}
}
