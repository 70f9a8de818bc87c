package resource

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Codes of servers that do not have a resource: before MCP 2026-07-28, and since.
const (
	codeResourceNotFound = -32002
	codeInvalidParams    = -32602
)

// Read reads a resource, of the first of these: the open skill that lists it; the skill of which a finished call of
// this conversation returned it; the open skill that has a template for it; each open skill in turn, until one has it. Errors:
// [ErrDenied], *[SkillError]. Whom it asks, or that it asks nobody, is recorded.
func (s *Service) Read(ctx context.Context, who Who, uri string, ask Ask) (json.RawMessage, error) {
	params := object(`"uri":`, uri, ask.Members)
	return s.first(ctx, who, uri, "resource.read", func(o *catalog.Offer) (json.RawMessage, error) {
		return s.sendFor(ctx, who, o, "resources/read", uri, params, ask)
	})
}

// first asks the skills whose resource it may be, until one answers as one that has it. Each is recorded first, as an action.
func (s *Service) first(
	ctx context.Context, who Who, uri, action string, ask func(*catalog.Offer) (json.RawMessage, error),
) (json.RawMessage, error) {
	whose, err := s.holders(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	if len(whose) == 0 {
		if err := s.record(ctx, who, "resource.denied", nil, "uri", uri); err != nil {
			return nil, err
		}
		return nil, ErrDenied
	}
	var first error
	for _, o := range whose {
		if err := s.record(ctx, who, action, o, "uri", uri); err != nil {
			return nil, err
		}
		raw, err := ask(o)
		failed, is := errors.AsType[*SkillError](err)
		if err == nil || !is || ctx.Err() != nil {
			return raw, err
		}
		// What failed for another reason tells more than that others do not have it.
		if before, is := errors.AsType[*SkillError](first); first == nil || is && lacks(before.Failure) && !lacks(failed.Failure) {
			first = err
		}
		if !lacks(failed.Failure) && failed.Failure.Kind == tool.JSONRPCError {
			break // it has it, and says what is wrong
		}
	}
	return nil, first
}

// lacks reports whether a server says that it does not have a resource, or none at all.
func lacks(f *tool.Failure) bool {
	if f.Kind != tool.JSONRPCError {
		return false
	}
	code := rpcCode(f.RPC)
	return code == codeResourceNotFound || code == codeInvalidParams || code == codeMethodNotFound
}

// holders are the skills whose resource it is, or may be.
func (s *Service) holders(ctx context.Context, who Who, uri string) ([]*catalog.Offer, error) {
	offers, list, err := s.compose(ctx, who, Resources)
	if err != nil {
		return nil, err
	}
	if e, ok := list.named(uri); ok {
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
	_, templates, err := s.compose(ctx, who, Templates)
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
	return s.withResources(ctx, open), nil
}

// withResources leaves out skills that are known to have none.
func (s *Service) withResources(ctx context.Context, open []*catalog.Offer) []*catalog.Offer {
	return slices.DeleteFunc(open, func(o *catalog.Offer) bool {
		if o.Problem != nil {
			return false
		}
		source, err := s.Sources.Source(o.Server.Transport)
		if err != nil {
			return false
		}
		has, err := source.Capabilities(ctx, o.Server)
		return err == nil && !has.Resources
	})
}

// object is a params object of one text member and others.
func object(member, text string, more []byte) []byte {
	params := append([]byte{'{'}, member...)
	params, _ = jsontext.AppendQuote(params, text) // what is not UTF-8 is replaced
	if len(more) > 0 {
		params = append(append(params, ','), more...)
	}
	return append(params, '}')
}
