package httptool

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

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
		var failure *tool.Failure
		if text, failure = s.readDocument(ctx, &server); failure != nil {
			return "", failure
		}
		return fmt.Sprintf("%d KiB", (len(text)+1023)/1024), nil
	})
	if err != nil {
		return err
	}
	return take("operations", func() (string, error) {
		if err := s.documents.lock(ctx); err != nil {
			return "", documentFailure(ctx, &server, err)
		}
		defer s.documents.unlock()
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
