package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/yosida95/uritemplate/v3"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Bounds on one list of one skill. A list that exceeds them is a problem, not a shorter list.
const (
	maxPages    = 200
	maxEntries  = 10_000
	maxBytes    = 8 << 20
	maxTemplate = 1 << 10 // bytes of a template that URIs are compared with
)

// How long a list is used without asking again where its server does not say.
const (
	defaultTTL = time.Minute
	maxTTL     = time.Hour
	failedTTL  = 5 * time.Second
)

// maxRemembered bounds the lists of all skills in memory, in bytes.
const maxRemembered = 64 << 20

// listingKey is whose list: of a skill with connections of people's own, each person's.
type listingKey struct {
	skillID   uuid.UUID
	revision  int64
	principal uuid.UUID
	kind      Kind
}

func keyOf(o *catalog.Offer, kind Kind) listingKey {
	key := listingKey{skillID: o.Skill.ID, revision: o.Server.Revision, kind: kind}
	if o.Server.PerUser {
		key.principal = o.Server.Principal
	}
	return key
}

// listing is a skill's list, or why there is none.
type listing struct {
	entries []found
	bytes   int
	ttl     time.Duration
	failure *tool.Failure
}

// found is one entry, as its server wrote it.
type found struct {
	name  string
	raw   json.RawMessage
	match *regexp.Regexp // of URIs made of a template; nil: of none
}

// fresh is how long it may be used; what is out of date at once is for those who asked together.
func (l *listing) fresh() time.Duration {
	if l.failure != nil {
		return failedTTL
	}
	return max(l.ttl, 1)
}

const entrySize = 128

func (l *listing) size() int { return l.bytes + entrySize*(len(l.entries)+1) }

// list asks a skill's server for a list, all pages of it, or remembers it.
func (s *Service) list(ctx context.Context, o *catalog.Offer, kind Kind) (*listing, error) {
	return s.listings.Get(ctx, keyOf(o, kind), func(ctx context.Context) (*listing, error) {
		ctx, cancel := context.WithTimeout(ctx, s.ListTimeout)
		defer cancel()
		l, err := s.fetch(ctx, o, kind)
		if failed, is := errors.AsType[*SkillError](err); is {
			if notOffered(failed.Failure) {
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

// notOffered reports whether a server has no such list at all.
func notOffered(f *tool.Failure) bool {
	return f.Kind == tool.JSONRPCError && rpcCode(f.RPC) == codeMethodNotFound
}

// rpcCode is the code of a JSON-RPC error object; 0: there is none.
func rpcCode(rpc json.RawMessage) int64 {
	code := int64(0)
	err := members(rpc, func(name string, value json.RawMessage) error {
		if name == "code" {
			code, _ = strconv.ParseInt(string(value), 10, 64) // what is no integer is no code
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return code
}

// fetch follows the pages.
func (s *Service) fetch(ctx context.Context, o *catalog.Offer, kind Kind) (*listing, error) {
	l := &listing{ttl: defaultTTL}
	seen, cursors := map[string]bool{}, map[string]bool{}
	var params []byte
	for page := 1; ; page++ {
		raw, err := s.send(ctx, o, kind.Method(), "", params, Ask{})
		if err != nil {
			return nil, err
		}
		cursor, err := l.take(raw, kind, seen)
		switch {
		case err == nil && cursor == nil:
			return l, nil
		case err == nil && page == maxPages:
			err = fmt.Errorf("more than %d pages", maxPages)
		case err == nil && cursors[string(cursor)]:
			err = errors.New("a page leads back to an earlier one")
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

// take reads one page, and returns the cursor of the next as it came; nil: there is none.
func (l *listing) take(raw json.RawMessage, kind Kind, seen map[string]bool) (cursor json.RawMessage, err error) {
	if l.bytes += len(raw); l.bytes > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	var list json.RawMessage
	err = members(raw, func(name string, value json.RawMessage) error {
		switch name {
		case kind.Member():
			list = bytes.Clone(value)
		case "nextCursor":
			if cursor = bytes.Clone(value); string(value) == "null" {
				cursor = nil
			} else if value[0] != '"' {
				return errors.New("nextCursor is not a string")
			}
		case "ttlMs":
			if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms >= 0 {
				l.ttl = min(l.ttl, time.Duration(min(ms, int64(maxTTL/time.Millisecond)))*time.Millisecond)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cursor, l.entriesOf(list, kind, seen)
}

// entriesOf takes those entries that can be used, and none twice.
func (l *listing) entriesOf(list json.RawMessage, kind Kind, seen map[string]bool) error {
	if len(list) == 0 || list[0] != '[' {
		return fmt.Errorf("%s is not a list", kind.Member())
	}
	decoder := strictly(list)
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() != ']' {
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		entry := found{raw: bytes.Clone(value)}
		if entry.name, err = nameOf(entry.raw, kind); err != nil || !kind.usable(entry.name) || seen[entry.name] {
			continue
		}
		if len(l.entries) == maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if kind == Templates {
			entry.match = matcher(entry.name)
		}
		seen[entry.name] = true
		l.entries = append(l.entries, entry)
	}
	return nil
}

// nameOf is what an entry is called.
func nameOf(raw json.RawMessage, kind Kind) (name string, err error) {
	err = members(raw, func(member string, value json.RawMessage) error {
		if member == kind.key() {
			return json.Unmarshal(value, &name)
		}
		return nil
	})
	return name, err
}

// matcher recognizes URIs that were made of a template (RFC 6570). Nil: it is none, or too long.
func matcher(template string) *regexp.Regexp {
	if len(template) > maxTemplate {
		return nil
	}
	parsed, err := uritemplate.New(template)
	if err != nil {
		return nil
	}
	return compiled(parsed)
}

// compiled is the template's expression. Nil: it is too large for one, which the library panics about.
func compiled(template *uritemplate.Template) (match *regexp.Regexp) {
	defer func() {
		if recover() != nil {
			match = nil
		}
	}()
	return template.Regexp()
}

// strictly reads JSON in which no name stands twice and all text is UTF-8.
func strictly(raw []byte) *jsontext.Decoder { return jsontext.NewDecoder(bytes.NewBuffer(raw)) }

// members calls visit with each member of a JSON object. A value is good until visit returns.
func members(raw json.RawMessage, visit func(name string, value json.RawMessage) error) error {
	decoder := strictly(raw)
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return errors.Join(errors.New("not an object"), err)
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		text := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(text, json.RawMessage(value)); err != nil {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}
