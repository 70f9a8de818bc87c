package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/yosida95/uritemplate/v3"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The limits on one list of one skill. A list beyond them is a problem, not a shorter list.
const (
	maxPages    = 200
	maxEntries  = 10_000
	maxBytes    = 8 << 20
	maxTemplate = 1 << 10 // bytes of a template that URIs are matched with
)

// How long a list is cached if its server does not say.
const (
	defaultTTL = time.Minute
	maxTTL     = time.Hour
	failedTTL  = 5 * time.Second
)

// maxRemembered bounds the cached lists of all skills, in bytes.
const maxRemembered = 64 << 20

// listingKey identifies a list. A skill with a connection for each person has a list for each person.
type listingKey struct {
	skillID   uuid.UUID
	revision  int64
	principal uuid.UUID
	kind      Kind
}

func newListingKey(o *catalog.Offer, kind Kind) listingKey {
	key := listingKey{skillID: o.Skill.ID, revision: o.Server.Revision, kind: kind}
	if o.Server.PerUser {
		key.principal = o.Server.Principal
	}
	return key
}

// listing is a skill's list, or the failure to get it.
type listing struct {
	entries []found
	bytes   int
	ttl     time.Duration
	failure *tool.Failure
}

// found is one entry, as its server sent it.
type found struct {
	name  string
	raw   json.RawMessage
	match *regexp.Regexp // matches the URIs of a template; nil: none
}

// freshFor returns how long the list is cached. A list with no time to live is only for the callers that wait for it together.
func (l *listing) freshFor() time.Duration {
	if l.failure != nil {
		return failedTTL
	}
	return max(l.ttl, 1)
}

const entrySize = 128

func (l *listing) countBytes() int { return l.bytes + entrySize*(len(l.entries)+1) }

// cachedList returns a skill's list from the cache, or fetches all of its pages.
func (s *Service) cachedList(ctx context.Context, o *catalog.Offer, kind Kind) (*listing, error) {
	return s.listings.Get(ctx, newListingKey(o, kind), func(ctx context.Context) (*listing, error) {
		ctx, cancel := context.WithTimeout(ctx, s.ListTimeout)
		defer cancel()
		l, err := s.fetchList(ctx, o, kind)
		if failed, is := errors.AsType[*SkillError](err); is {
			if isNotOffered(failed.Failure) {
				return &listing{ttl: defaultTTL}, nil
			}
			s.Logger.WarnContext(ctx, "skill could not be listed", "skill", o.Skill.Name, "method", kind.Method(),
				"kind", failed.Failure.Kind, "error", failed.Failure.Message)
			return &listing{failure: failed.Failure}, nil
		}
		return l, err
	})
}

const codeMethodNotFound = -32601

// isNotOffered reports whether a server does not have this kind of list.
func isNotOffered(f *tool.Failure) bool {
	return f.Kind == tool.JSONRPCError && readErrorCode(f.RPC) == codeMethodNotFound
}

// readErrorCode returns the code of a JSON-RPC error object, or 0.
func readErrorCode(rpc json.RawMessage) int64 {
	code := int64(0)
	for m, err := range rawjson.Members(rpc) {
		if err != nil {
			return 0
		}
		if m.Name() == "code" {
			code, _ = strconv.ParseInt(string(m.Value), 10, 64) // 0 if it is not an integer
		}
	}
	return code
}

// fetchList fetches all pages.
func (s *Service) fetchList(ctx context.Context, o *catalog.Offer, kind Kind) (*listing, error) {
	l := &listing{ttl: defaultTTL}
	seen, cursors := map[string]bool{}, map[string]bool{}
	var params []byte
	for page := 1; ; page++ {
		raw, err := s.sendRequest(ctx, o, kind.Method(), "", params, Ask{})
		if err != nil {
			return nil, err
		}
		cursor, err := l.addPage(raw, kind, seen)
		switch {
		case err == nil && cursor == nil:
			return l, nil
		case err == nil && page == maxPages:
			err = fmt.Errorf("more than %d pages", maxPages)
		case err == nil && cursors[string(cursor)]:
			err = errors.New("two pages have the same cursor")
		}
		if err != nil {
			return nil, &SkillError{Skill: o.Skill.Name, Failure: &tool.Failure{
				Kind: tool.ProtocolFailure, Effect: tool.EffectNone, Message: kind.Method() + ": " + err.Error(), Err: err,
			}}
		}
		cursors[string(cursor)] = true
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// addPage adds one page. It returns the cursor of the next page as it came, or nil.
func (l *listing) addPage(raw json.RawMessage, kind Kind, seen map[string]bool) (cursor json.RawMessage, err error) {
	if l.bytes += len(raw); l.bytes > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	var list json.RawMessage
	for m, err := range rawjson.Members(raw) {
		if err != nil {
			return nil, err
		}
		value := json.RawMessage(m.Value)
		switch m.Name() {
		case kind.Member():
			list = value
		case "nextCursor":
			if cursor = bytes.Clone(value); string(value) == "null" {
				cursor = nil
			} else if value[0] != '"' {
				return nil, errors.New("nextCursor is not a string")
			}
		case "ttlMs":
			if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms >= 0 {
				l.ttl = min(l.ttl, time.Duration(min(ms, int64(maxTTL/time.Millisecond)))*time.Millisecond)
			}
		}
	}
	return cursor, l.addEntries(list, kind, seen)
}

// addEntries adds the usable entries whose names are new.
func (l *listing) addEntries(list json.RawMessage, kind Kind, seen map[string]bool) error {
	if len(list) == 0 || list[0] != '[' {
		return fmt.Errorf("%s is not a list", kind.Member())
	}
	var values []json.RawMessage
	if err := jsonv2.Unmarshal(list, &values); err != nil {
		return err
	}
	for _, value := range values {
		name, err := readName(value, kind)
		if err != nil || !kind.canBeNamed(name) || seen[name] {
			continue
		}
		entry := found{name: name, raw: value}
		if len(l.entries) == maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if kind == Templates {
			entry.match = newMatcher(name)
		}
		seen[name] = true
		l.entries = append(l.entries, entry)
	}
	return nil
}

// readName returns the name of an entry.
func readName(raw json.RawMessage, kind Kind) (name string, err error) {
	for m, err := range rawjson.Members(raw) {
		if err != nil {
			return "", err
		}
		if m.Name() == kind.entryKey() {
			if err := json.Unmarshal(m.Value, &name); err != nil {
				return "", err
			}
		}
	}
	return name, nil
}

// newMatcher returns an expression for the URIs of a template (RFC 6570), or nil if the template is invalid or too long.
func newMatcher(template string) *regexp.Regexp {
	if len(template) > maxTemplate {
		return nil
	}
	parsed, err := uritemplate.New(template)
	if err != nil {
		return nil
	}
	return compileTemplate(parsed)
}

// compileTemplate returns the template's expression, or nil if it is too large, for which the library panics.
func compileTemplate(template *uritemplate.Template) (match *regexp.Regexp) {
	defer func() {
		if recover() != nil {
			match = nil
		}
	}()
	return template.Regexp()
}

// Kind is a kind of list.
type Kind int

// The kinds of lists.
const (
	Resources Kind = iota
	Templates
	Prompts
)

// Method returns the method of the request for the list.
func (k Kind) Method() string {
	return [...]string{"resources/list", "resources/templates/list", "prompts/list"}[k]
}

// Member returns the member of the result that has the list.
func (k Kind) Member() string { return [...]string{"resources", "resourceTemplates", "prompts"}[k] }

// entryKey returns the member that names an entry.
func (k Kind) entryKey() string { return [...]string{"uri", "uriTemplate", "name"}[k] }

// MaxURI bounds a URI or a template, in bytes.
const MaxURI = 8 << 10

// maxPromptName bounds the name of a prompt, in bytes.
const maxPromptName = 1024

// canBeNamed reports whether an entry may have this name.
func (k Kind) canBeNamed(name string) bool {
	limit := MaxURI
	if k == Prompts {
		limit = maxPromptName
	}
	return name != "" && len(name) <= limit && !strings.ContainsFunc(name, unicode.IsControl)
}

// exposedName returns the agent's name for an entry of a skill.
func (k Kind) exposedName(o *catalog.Offer, own string) string {
	if k == Prompts {
		return tool.ExposedName(o.Prefix, own)
	}
	return own
}
