package httptool

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// generation numbers the rules by which definitions are made of documents and endpoints. It grows with each change that makes other
// definitions of the same document, since processes of two versions run side by side during an upgrade.
const generation = 1

// List implements [tool.Source]. It makes the definitions anew when the document or what the operator says of it changed.
func (s *Source) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	if server.API == nil || !server.Transport.IsAPI() {
		return tool.Listing{}, failed(tool.TransportFailure, nil, "skill %s: transport %q is no HTTP API", server.Skill, server.Transport)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	if server.Transport == tool.HTTPAPI {
		return listEndpoints(&server)
	}
	made, failure := s.definitions(ctx, &server)
	if failure != nil {
		return tool.Listing{}, failure
	}
	return tool.Listing{Tools: made.tools, Skipped: made.skipped, Generation: generation}, nil
}

// definitions are what was made of a document for one skill.
type definitions struct {
	tools      []tool.Definition
	skipped    []tool.Skipped
	operations int // of the whole document
}

// define makes the definitions of the operations of a document that a skill has.
func define(doc *document, server *tool.Server, limits *Limits) (_ *definitions, err error) {
	defer catchStop(&err)
	b := newBuilder(doc, server, limits)
	if server.URL == "" {
		if _, err := b.base.document(); err != nil {
			return nil, err
		}
	}
	chosen, missing := choose(b.all, server.API)
	if len(chosen) > limits.Operations {
		return nil, fmt.Errorf("%d operations of the document are selected, at most %d can be: choose some with include", len(chosen), limits.Operations)
	}
	made := &definitions{skipped: missing, operations: len(b.all)}
	size := 0
	for _, o := range chosen {
		built, err := b.build(o)
		if err != nil {
			made.skipped = append(made.skipped, tool.Skipped{Name: o.name, Reason: reason(err)})
			continue
		}
		if size += len(built.definition.Raw()); size > limits.ToolBytes {
			return nil, fmt.Errorf("the tools of the document are together larger than %d MiB: choose some with include", limits.ToolBytes>>20)
		}
		made.tools = append(made.tools, built.definition)
	}
	return made, nil
}

// documentFailure is what is wrong with a document, or the end of the time it may take.
func documentFailure(ctx context.Context, server *tool.Server, err error) *tool.Failure {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return failed(tool.TransportFailure, err, "skill %s: reading the OpenAPI document took too long, or was given up", server.Skill)
	}
	return failed(tool.ProtocolFailure, err, "skill %s: %s", server.Skill, reason(err))
}
