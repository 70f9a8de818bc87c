package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxTTL bounds what a server may say of how long its listing holds.
const maxTTL = 24 * time.Hour

// sender sends a request to one server.
type sender func(context.Context, *request) (json.RawMessage, negotiated, *tool.Failure)

// page is one answer to tools/list.
type page struct {
	tools  []json.RawMessage
	cursor string
	ttl    *time.Duration
}

// lister collects the pages of one tools/list.
type lister struct {
	limits  Limits
	listing tool.Listing
	names   map[string]bool
	cursors map[string]bool
	count   int
	left    int64 // bytes
}

// listTools asks for all pages, within the limits.
func listTools(ctx context.Context, limits Limits, send sender, transport tool.Transport) (tool.Listing, *tool.Failure) {
	l := &lister{limits: limits, left: limits.ListBytes, names: map[string]bool{}, cursors: map[string]bool{}}
	cursor := ""
	for pages := 0; ; pages++ {
		if pages == limits.Pages {
			return tool.Listing{}, l.beyond("more than %d pages", limits.Pages)
		}
		raw, agreed, failure := send(ctx, listRequest(cursor, l.left))
		if failure != nil {
			if errors.Is(failure.Err, errTooLarge) {
				return tool.Listing{}, l.beyond("more than %d bytes", limits.ListBytes)
			}
			return tool.Listing{}, failure
		}
		got, err := readPage(raw)
		if err != nil {
			return tool.Listing{}, protocolFailure(raw, err, "tools/list: the result is not a list of tools: %s", plain(err.Error(), 200))
		}
		l.left -= int64(len(raw))
		l.listing.ProtocolVersion = agreed.version
		if failure := l.add(got, agreed.modern() && transport == tool.HTTP); failure != nil {
			return tool.Listing{}, failure
		}
		switch cursor = got.cursor; {
		case cursor == "":
			return l.listing, nil
		case l.cursors[cursor]:
			return tool.Listing{}, l.beyond("the same cursor twice, %q", plain(cursor, 100))
		case l.left <= 0:
			return tool.Listing{}, l.beyond("more than %d bytes", limits.ListBytes)
		}
		l.cursors[cursor] = true
	}
}

func listRequest(cursor string, limit int64) *request {
	r := &request{method: "tools/list", limit: limit, what: "tools/list"}
	if cursor != "" {
		r.members = quoted([]byte(`"cursor":`), cursor)
	}
	return r
}

func (l *lister) beyond(format string, args ...any) *tool.Failure {
	f := protocolFailure(nil, nil, "tools/list: the server sent %s", fmt.Sprintf(format, args...))
	f.Effect = tool.EffectNone
	return f
}

// add takes a page's tools into the listing; what cannot be offered is skipped.
func (l *lister) add(p page, headers bool) *tool.Failure {
	if l.count += len(p.tools); l.count > l.limits.Tools {
		return l.beyond("more than %d tools", l.limits.Tools)
	}
	if p.ttl != nil && (l.listing.TTL == nil || *p.ttl < *l.listing.TTL) {
		l.listing.TTL = p.ttl
	}
	for _, raw := range p.tools {
		definition, err := tool.ParseDefinition(raw)
		switch {
		case err != nil:
			l.skip(nameOf(raw), plain(err.Error(), 300))
			continue
		case l.names[definition.Name]:
			l.skip(definition.Name, "another tool of this server has the same name")
			continue
		}
		if headers {
			if _, err := bindings(definition.InputSchema); err != nil {
				l.skip(definition.Name, plain(err.Error(), 300))
				continue
			}
		}
		l.names[definition.Name] = true
		l.listing.Tools = append(l.listing.Tools, definition)
	}
	return nil
}

func (l *lister) skip(name, reason string) {
	l.listing.Skipped = append(l.listing.Skipped, tool.Skipped{Name: plain(name, 256), Reason: reason})
}

// nameOf reads what a definition that is not valid calls itself.
func nameOf(raw json.RawMessage) string {
	var d struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return ""
	}
	return d.Name
}

// readPage reads a result of tools/list.
func readPage(raw json.RawMessage) (page, error) {
	var p page
	found := false
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		var err error
		switch name {
		case "tools":
			found = len(value) > 0 && value[0] == '['
			err = json.Unmarshal(value, &p.tools)
		case "nextCursor":
			err = json.Unmarshal(value, &p.cursor) // null: none
		case "ttlMs":
			p.ttl = readTTL(value)
		case "resultType":
			if string(value) != `"complete"` {
				err = fmt.Errorf("resultType %s", plain(string(value), 100))
			}
		}
		if err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
		return nil
	})
	if err == nil && !found {
		err = errors.New("it has no tools")
	}
	return p, err
}

// readTTL reads ttlMs; what is no such number is as good as none, which is nil.
func readTTL(value json.RawMessage) *time.Duration {
	var ms *float64
	if err := json.Unmarshal(value, &ms); err != nil || ms == nil || *ms < 0 {
		return nil
	}
	ttl := time.Duration(min(*ms, float64(maxTTL.Milliseconds())) * float64(time.Millisecond))
	return &ttl
}
