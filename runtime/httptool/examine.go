package httptool

import (
	"context"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Examine fetches the OpenAPI document at a URL that an operator named, and summarizes it. Errors are *[tool.Failure].
func (s *Source) Examine(ctx context.Context, url string) (setting.Examination, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	text, _, failure := s.fetchDocument(ctx, url, nil, validators{})
	if failure != nil {
		return setting.Examination{}, failure
	}
	return s.examineText(ctx, text, url)
}

// ExamineDocument summarizes an OpenAPI document that was given by value. Errors are *[tool.Failure].
func (s *Source) ExamineDocument(ctx context.Context, text []byte) (setting.Examination, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	return s.examineText(ctx, text, "")
}

func (s *Source) examineText(ctx context.Context, text []byte, spec string) (setting.Examination, error) {
	err := s.documents.lock(ctx)
	var found setting.Examination
	if err == nil {
		defer s.documents.unlock()
		found, err = openapi.Examine(ctx, text, spec, s.config.Limits.Definitions)
	}
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return found, failed(tool.TransportFailure, err, "reading the OpenAPI document took too long, or was given up")
	}
	return found, failed(tool.ProtocolFailure, err, "%s", openapi.Reason(err))
}
