package httptool

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// List implements [tool.Source]. It makes new definitions if the document or its settings changed.
func (s *Source) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	if server.API == nil || !server.Transport.IsAPI() {
		return tool.Listing{}, newFailure(tool.TransportFailure, nil, "skill %s: transport %q is no HTTP API", server.Skill, server.Transport)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	if server.Transport == tool.HTTPAPI {
		return listEndpoints(&server)
	}
	made, failure := s.findDefinitions(ctx, &server)
	if failure != nil {
		return tool.Listing{}, failure
	}
	return listingOf(made), nil
}

// listEndpoints lists the endpoints that an operator wrote by hand.
func listEndpoints(server *tool.Server) (tool.Listing, error) {
	if server.URL == "" {
		return tool.Listing{}, newFailure(tool.TransportFailure, nil, "skill %s has no base_url", server.Skill)
	}
	return listingOf(openapi.DefineEndpoints(server.API)), nil
}

func listingOf(made *openapi.Definitions) tool.Listing {
	return tool.Listing{Tools: made.Tools, Skipped: made.Skipped, Generation: openapi.Generation}
}

// documentFailure is the failure of a document that is invalid or took too long.
func documentFailure(ctx context.Context, server *tool.Server, err error) *tool.Failure {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return newFailure(tool.TransportFailure, err, "skill %s: reading the OpenAPI document took too long, or was given up", server.Skill)
	}
	return newFailure(tool.ProtocolFailure, err, "skill %s: %s", server.Skill, openapi.Reason(err))
}

// Probe implements [tool.Source]. It reads the document and makes definitions. It sends no request to the API itself.
func (s *Source) Probe(ctx context.Context, server tool.Server, step func(tool.Step)) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	take := func(name string, do func() (string, error)) error {
		began := s.config.Now()
		detail, err := do()
		if err != nil {
			detail = ""
		}
		step(tool.Step{Name: name, Detail: detail, Took: s.config.Now().Sub(began), Err: err})
		return err
	}
	if server.API == nil || !server.Transport.IsAPI() {
		_, err := s.List(ctx, server)
		return err
	}
	if server.Transport == tool.HTTPAPI {
		return take("endpoints", func() (string, error) {
			listing, err := listEndpoints(&server)
			return countTools(len(listing.Tools), len(listing.Skipped)), err
		})
	}
	var text []byte
	err := take("document", func() (string, error) {
		doc, failure := s.locateDocument(ctx, &server, true)
		if failure == nil {
			text, failure = doc.load(ctx)
		}
		if failure != nil {
			return "", failure
		}
		return fmt.Sprintf("%d KiB", (len(text)+1023)/1024), nil
	})
	if err != nil {
		return err
	}
	return take("operations", func() (string, error) {
		if err := s.documents.lockReading(ctx); err != nil {
			return "", documentFailure(ctx, &server, err)
		}
		defer s.documents.unlockReading()
		made, err := openapi.Define(ctx, text, &server, s.config.Limits.Definitions)
		if err != nil {
			return "", documentFailure(ctx, &server, err)
		}
		return fmt.Sprintf("%d in the document, %s", made.Operations, countTools(len(made.Tools), len(made.Skipped))), nil
	})
}

func countTools(tools, skipped int) string {
	detail := fmt.Sprintf("%d tools", tools)
	if skipped > 0 {
		detail += fmt.Sprintf(", %d skipped", skipped)
	}
	return detail
}

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
	err := s.documents.lockReading(ctx)
	var found setting.Examination
	if err == nil {
		defer s.documents.unlockReading()
		found, err = openapi.Examine(ctx, text, spec, s.config.Limits.Definitions)
	}
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return found, newFailure(tool.TransportFailure, err, "reading the OpenAPI document took too long, or was given up")
	}
	return found, newFailure(tool.ProtocolFailure, err, "%s", openapi.Reason(err))
}

// newFailure returns a failure without an effect. The caller makes text from servers and documents plain first.
func newFailure(kind tool.FailureKind, cause error, format string, args ...any) *tool.Failure {
	return &tool.Failure{Kind: kind, Effect: tool.EffectNone, Message: fmt.Sprintf(format, args...), Err: cause}
}
