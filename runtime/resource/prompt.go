package resource

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Prompt gets a prompt by the agent's name for it, and records that. Arguments are JSON; nil: none. Errors: [ErrUnknown], *[SkillError].
func (s *Service) Prompt(ctx context.Context, who Who, name string, arguments []byte, ask Ask) (json.RawMessage, error) {
	prompt, err := s.findPrompt(ctx, who, name)
	if err != nil {
		return nil, err
	}
	if err := s.writeAudit(ctx, who, audit.PromptGot, prompt.offer, "prompt", prompt.own); err != nil {
		return nil, err
	}
	more := ask.Members
	if arguments != nil {
		more = joinMembers([]byte(`"arguments":`), arguments, more)
	}
	return s.sendForCaller(ctx, who, prompt.offer, "prompts/get", prompt.own, encodeObject(`"name":`, prompt.own, more), ask)
}

// findPrompt returns a prompt. If the prompt may belong to a skill that cannot be asked, the error says so.
func (s *Service) findPrompt(ctx context.Context, who Who, name string) (*Entry, error) {
	offers, list, err := s.composeList(ctx, who, Prompts)
	if err != nil {
		return nil, err
	}
	if e, ok := list.findEntry(name); ok {
		return e, nil
	}
	for i := range offers {
		o := &offers[i]
		if !o.Open || !strings.HasPrefix(name, tool.ExposedName(o.Prefix, "")) && o.Prefix != "" {
			continue
		}
		if o.Problem != nil {
			return nil, failUnreachable(o)
		}
		if l, err := s.cachedList(ctx, o, Prompts); err == nil && l.failure != nil {
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

// Reference is the prompt or resource whose argument is completed.
type Reference struct {
	Type string // ref/prompt, ref/resource
	Name string // of a prompt, as the agent sees it
	URI  string // of a resource, or its template
}

// Complete completes an argument of a prompt or a template. ask.Members are the request's params without its ref. Errors: [ErrUnknown],
// *[SkillError].
func (s *Service) Complete(ctx context.Context, who Who, ref Reference, ask Ask) (json.RawMessage, error) {
	var entry *Entry
	var err error
	own := []byte(`"ref":{"type":"` + ref.Type + `",`)
	switch ref.Type {
	case refPrompt:
		if entry, err = s.findPrompt(ctx, who, ref.Name); err == nil {
			own = append(own, encodeObject(`"name":`, entry.own, nil)[1:]...)
		}
	case refResource:
		if entry, err = s.findReferred(ctx, who, ref.URI); err == nil {
			own = append(own, encodeObject(`"uri":`, entry.own, nil)[1:]...)
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
	return s.sendForCaller(ctx, who, entry.offer, "completion/complete", "", append(append([]byte{'{'}, own...), '}'), ask)
}

// findReferred returns a template or a resource.
func (s *Service) findReferred(ctx context.Context, who Who, uri string) (*Entry, error) {
	for _, kind := range []Kind{Templates, Resources} {
		_, list, err := s.composeList(ctx, who, kind)
		if err != nil {
			return nil, err
		}
		if e, ok := list.findEntry(uri); ok {
			return e, nil
		}
	}
	return nil, ErrUnknown
}

// failUnreachable returns the failure of a skill whose server cannot be asked.
func failUnreachable(o *catalog.Offer) error {
	return &SkillError{Skill: o.Skill.Name, Failure: &tool.Failure{
		Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: o.Problem.Error,
		Connect: &tool.Connect{Reason: o.Problem.Error},
	}}
}

// joinMembers returns a member and the members after it.
func joinMembers(name, value, rest []byte) []byte {
	all := append(append([]byte(nil), name...), value...)
	if len(rest) > 0 {
		all = append(append(all, ','), rest...)
	}
	return all
}
