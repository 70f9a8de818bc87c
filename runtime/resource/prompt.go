package resource

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Prompt gets a prompt by the name that the agent knows. Arguments are JSON; nil: none. Errors: [ErrUnknown], *[SkillError].
// It is recorded.
func (s *Service) Prompt(ctx context.Context, who Who, name string, arguments []byte, ask Ask) (json.RawMessage, error) {
	prompt, err := s.prompt(ctx, who, name)
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, who, "prompt.got", prompt.offer, "prompt", prompt.own); err != nil {
		return nil, err
	}
	more := ask.Members
	if arguments != nil {
		more = joined([]byte(`"arguments":`), arguments, more)
	}
	return s.sendFor(ctx, who, prompt.offer, "prompts/get", prompt.own, object(`"name":`, prompt.own, more), ask)
}

// prompt finds one. That it is not found because its skill cannot be asked is said.
func (s *Service) prompt(ctx context.Context, who Who, name string) (*Entry, error) {
	offers, list, err := s.compose(ctx, who, Prompts)
	if err != nil {
		return nil, err
	}
	if e, ok := list.named(name); ok {
		return e, nil
	}
	for i := range offers {
		o := &offers[i]
		if !o.Open || !strings.HasPrefix(name, tool.ExposedName(o.Prefix, "")) && o.Prefix != "" {
			continue
		}
		if o.Problem != nil {
			return nil, unreachable(o)
		}
		if l, err := s.list(ctx, o, Prompts); err == nil && l.failure != nil {
			return nil, &SkillError{Skill: o.Skill.Name, Failure: l.failure}
		}
	}
	return nil, ErrUnknown
}

// The kinds of references of completion/complete.
const (
	refPrompt   = "ref/prompt"
	refResource = "ref/resource"
)

// Reference is what an argument is completed for.
type Reference struct {
	Type string // ref/prompt, ref/resource
	Name string // of a prompt, as the agent knows it
	URI  string // of a resource, or its template
}

// Complete completes an argument of a prompt or a template. Members are the request's params but its ref. Errors:
// [ErrUnknown], *[SkillError].
func (s *Service) Complete(ctx context.Context, who Who, ref Reference, ask Ask) (json.RawMessage, error) {
	var entry *Entry
	var err error
	own := []byte(`"ref":{"type":"` + ref.Type + `",`)
	switch ref.Type {
	case refPrompt:
		if entry, err = s.prompt(ctx, who, ref.Name); err == nil {
			own = append(own, object(`"name":`, entry.own, nil)[1:]...)
		}
	case refResource:
		if entry, err = s.referred(ctx, who, ref.URI); err == nil {
			own = append(own, object(`"uri":`, entry.own, nil)[1:]...)
		}
	default:
		err = ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	if len(ask.Members) > 0 {
		own = append(append(own, ','), ask.Members...)
	}
	return s.sendFor(ctx, who, entry.offer, "completion/complete", "", append(append([]byte{'{'}, own...), '}'), ask)
}

// referred finds a template, or a resource.
func (s *Service) referred(ctx context.Context, who Who, uri string) (*Entry, error) {
	for _, kind := range []Kind{Templates, Resources} {
		_, list, err := s.compose(ctx, who, kind)
		if err != nil {
			return nil, err
		}
		if e, ok := list.named(uri); ok {
			return e, nil
		}
	}
	return nil, ErrUnknown
}

// unreachable is the failure of a skill whose server nobody here can ask.
func unreachable(o *catalog.Offer) error {
	return &SkillError{Skill: o.Skill.Name, Failure: &tool.Failure{
		Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: o.Problem.Error,
		Connect: &tool.Connect{Reason: o.Problem.Error},
	}}
}

// joined is a member and what comes after it.
func joined(name, value, rest []byte) []byte {
	all := append(append([]byte(nil), name...), value...)
	if len(rest) > 0 {
		all = append(append(all, ','), rest...)
	}
	return all
}
