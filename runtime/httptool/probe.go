package httptool

import (
	"context"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Probe implements [tool.Source]: it gets the document, and makes its operations tools. No request is made to the API itself.
func (s *Source) Probe(ctx context.Context, server tool.Server, step func(tool.Step)) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	var tell probe
	tell.source, tell.step = s, step
	if server.API == nil || !server.Transport.IsAPI() {
		_, err := s.List(ctx, server)
		return err
	}
	if server.Transport == tool.HTTPAPI {
		return tell.take("endpoints", func() (string, error) {
			listing, err := listEndpoints(&server)
			return counted(len(listing.Tools), len(listing.Skipped)), err
		})
	}
	var text []byte
	err := tell.take("document", func() (string, error) {
		var failure *tool.Failure
		if text, failure = s.documentNow(ctx, &server); failure != nil {
			return "", failure
		}
		return fmt.Sprintf("%d KiB", (len(text)+1023)/1024), nil
	})
	if err != nil {
		return err
	}
	return tell.take("operations", func() (string, error) {
		made, err := s.alone(ctx, text, &server)
		if err != nil {
			return "", documentFailure(ctx, &server, err)
		}
		return fmt.Sprintf("%d in the document, %s", made.operations, counted(len(made.tools), len(made.skipped))), nil
	})
}

type probe struct {
	source *Source
	step   func(tool.Step)
}

// take takes one step and tells of it.
func (p probe) take(name string, do func() (string, error)) error {
	began := p.source.config.Now()
	detail, err := do()
	if err != nil {
		detail = ""
	}
	p.step(tool.Step{Name: name, Detail: detail, Took: p.source.config.Now().Sub(began), Err: err})
	return err
}

func counted(tools, skipped int) string {
	detail := fmt.Sprintf("%d tools", tools)
	if skipped > 0 {
		detail += fmt.Sprintf(", %d skipped", skipped)
	}
	return detail
}
