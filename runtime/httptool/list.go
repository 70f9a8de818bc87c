package httptool

import (
	"context"
	"errors"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// List implements [tool.Source]. It makes new definitions if the document or its settings changed.
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
	return listingOf(made), nil
}

// listEndpoints lists the endpoints that an operator wrote by hand.
func listEndpoints(server *tool.Server) (tool.Listing, error) {
	if server.URL == "" {
		return tool.Listing{}, failed(tool.TransportFailure, nil, "skill %s has no base_url", server.Skill)
	}
	return listingOf(openapi.DefineEndpoints(server.API)), nil
}

func listingOf(made *openapi.Definitions) tool.Listing {
	return tool.Listing{Tools: made.Tools, Skipped: made.Skipped, Generation: openapi.Generation}
}

// documentFailure is the failure of a document that is invalid or took too long.
func documentFailure(ctx context.Context, server *tool.Server, err error) *tool.Failure {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return failed(tool.TransportFailure, err, "skill %s: reading the OpenAPI document took too long, or was given up", server.Skill)
	}
	return failed(tool.ProtocolFailure, err, "skill %s: %s", server.Skill, openapi.Reason(err))
}
