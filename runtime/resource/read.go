package resource

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The codes for unknown resources, before MCP 2026-07-28 and since.
const (
	codeResourceNotFound = -32002
	codeInvalidParams    = -32602
)

// Read reads a resource from the first of these skills: the open skill that lists it; the skill that returned it in a finished call of
// this conversation; the open skill that has a matching template; each open skill in turn, until one has it. Each request, and each
// denial, is recorded. Errors: [ErrDenied], *[SkillError].
func (s *Service) Read(ctx context.Context, who Who, uri string, ask Ask) (json.RawMessage, error) {
	params := encodeObject(`"uri":`, uri, ask.Members)
	return s.askHolders(ctx, who, uri, audit.ResourceRead, func(o *catalog.Offer) (json.RawMessage, error) {
		return s.sendForCaller(ctx, who, o, "resources/read", uri, params, ask)
	})
}

// askHolders asks the skills that may have a resource until one answers that it has it. Each request is recorded first, with an action.
func (s *Service) askHolders(
	ctx context.Context, who Who, uri string, action audit.Action, ask func(*catalog.Offer) (json.RawMessage, error),
) (json.RawMessage, error) {
	whose, err := s.findHolders(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	if len(whose) == 0 {
		if err := s.writeAudit(ctx, who, audit.ResourceDenied, nil, "uri", uri); err != nil {
			return nil, err
		}
		return nil, ErrDenied
	}
	var first error
	for _, o := range whose {
		if err := s.writeAudit(ctx, who, action, o, "uri", uri); err != nil {
			return nil, err
		}
		raw, err := ask(o)
		failed, is := errors.AsType[*SkillError](err)
		if err == nil || !is || ctx.Err() != nil {
			return raw, err
		}
		// A failure for another reason is more useful than that a skill does not have the resource.
		if before, is := errors.AsType[*SkillError](first); first == nil || is && isMissing(before.Failure) && !isMissing(failed.Failure) {
			first = err
		}
		if !isMissing(failed.Failure) && failed.Failure.Kind == tool.JSONRPCError {
			break // it has the resource, and explains the error
		}
	}
	return nil, first
}

// isMissing reports whether a server answered that it does not have the resource, or no resources at all.
func isMissing(f *tool.Failure) bool {
	if f.Kind != tool.JSONRPCError {
		return false
	}
	code := readErrorCode(f.RPC)
	return code == codeResourceNotFound || code == codeInvalidParams || code == codeMethodNotFound
}

// findHolders returns the skills that have or may have a resource.
func (s *Service) findHolders(ctx context.Context, who Who, uri string) ([]*catalog.Offer, error) {
	offers, list, err := s.composeList(ctx, who, Resources)
	if err != nil {
		return nil, err
	}
	if e, ok := list.findEntry(uri); ok {
		return []*catalog.Offer{e.offer}, nil
	}
	returned, err := s.Returned(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	for i := range offers {
		if slices.Contains(returned, offers[i].Skill.ID) {
			return []*catalog.Offer{&offers[i]}, nil
		}
	}
	_, templates, err := s.composeList(ctx, who, Templates)
	if err != nil {
		return nil, err
	}
	for i := range templates.Entries {
		if e := &templates.Entries[i]; e.match != nil && e.match.MatchString(uri) {
			return []*catalog.Offer{e.offer}, nil
		}
	}
	var open []*catalog.Offer
	for i := range offers {
		if offers[i].Open {
			open = append(open, &offers[i])
		}
	}
	return s.dropWithoutResources(ctx, open), nil
}

// dropWithoutResources removes skills that are known to have no resources.
func (s *Service) dropWithoutResources(ctx context.Context, open []*catalog.Offer) []*catalog.Offer {
	return slices.DeleteFunc(open, func(o *catalog.Offer) bool {
		if o.Problem != nil {
			return false
		}
		source, err := s.requesterFor(o.Server.Transport)
		if err != nil {
			return false
		}
		has, err := source.Capabilities(ctx, o.Server)
		return err == nil && !has.Resources
	})
}

// encodeObject returns a params object with a text member and others.
func encodeObject(member, text string, more []byte) []byte {
	params := append([]byte{'{'}, member...)
	params = rawjson.AppendString(params, text)
	if len(more) > 0 {
		params = append(append(params, ','), more...)
	}
	return append(params, '}')
}
