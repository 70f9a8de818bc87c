package agent

import (
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// CheckSkill validates a spec as CreateSkill does. Errors: *fault.InvalidError.
func (s *Service) CheckSkill(spec SkillSpec) error {
	r := newReport()
	state := spec.buildState(r)
	state.validate(r, s.limits)
	return r.err()
}

// CheckDocumentSource validates the source of an OpenAPI document: a URL or the document itself. Errors: *fault.InvalidError.
func CheckDocumentSource(spec, document string) error {
	r := newReport()
	r.check(document == "" || spec == "", "document", "must be empty with spec: the document comes from one of the two")
	r.check(len(document) <= MaxDocument, "document", fmt.Sprintf("must be at most %d MiB", MaxDocument>>20))
	if document == "" {
		r.checkURL("spec", spec)
	}
	return r.err()
}

// DraftSkill is a skill over an HTTP API that is not registered.
type DraftSkill struct {
	Server      tool.Server // its id is new
	Document    []byte      // nil if the spec has none
	CallTimeout time.Duration
}

// PrepareDraft validates the spec of a skill over an HTTP API that is not registered. Errors: *fault.InvalidError.
func (s *Service) PrepareDraft(spec SkillSpec) (*DraftSkill, error) {
	r := newReport()
	state := spec.buildState(r)
	state.validate(r, s.limits)
	r.check(state.Transport.IsAPI(), "transport", "must be openapi or http-api: only HTTP APIs can be tried before they are registered")
	r.check(state.OAuth == nil && !state.PerUser, "oauth", "register the skill and connect it first: its tokens belong to it")
	if err := r.err(); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	server := tool.Server{
		SkillID: id, Skill: spec.Name, Revision: 1, Transport: state.Transport, URL: state.URL, Headers: maps.Clone(state.Headers),
		API: apiWithSelects(state.API.API, state.Tools), AuthSecret: state.API.secret,
	}
	return &DraftSkill{Server: server, Document: state.API.document, CallTimeout: state.CallTimeout}, nil
}
