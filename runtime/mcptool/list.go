package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/mcptool/streamable"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// listTools requests all pages, within the limits.
func listTools(ctx context.Context, limits Limits, send sender, transport tool.Transport) (tool.Listing, *tool.Failure) {
	l := &lister{limits: limits, left: limits.ListBytes, names: map[string]bool{}, cursors: map[string]bool{}}
	cursor := ""
	for pages := 0; ; pages++ {
		if pages == limits.Pages {
			return tool.Listing{}, l.failLimit("more than %d pages", limits.Pages)
		}
		r := &session.Request{Method: "tools/list", Limit: l.left, Label: "tools/list"}
		if cursor != "" {
			r.Members = rawjson.AppendString([]byte(`"cursor":`), cursor)
		}
		raw, info, failure := send(ctx, r)
		if failure != nil {
			if errors.Is(failure.Err, session.ErrTooLarge) {
				return tool.Listing{}, l.failLimit("more than %d bytes", limits.ListBytes)
			}
			return tool.Listing{}, failure
		}
		got, err := readPage(raw)
		if err != nil {
			return tool.Listing{}, session.NewProtocolFailure(raw, err, "tools/list: the result is not a list of tools: %s", plain.Line(err.Error(), 200))
		}
		l.left -= int64(len(raw))
		l.listing.ProtocolVersion = info.Capabilities.ProtocolVersion
		if failure := l.addPage(got, info.IsStateless() && transport == tool.HTTP); failure != nil {
			return tool.Listing{}, failure
		}
		switch cursor = got.cursor; {
		case cursor == "":
			return l.listing, nil
		case l.cursors[cursor]:
			return tool.Listing{}, l.failLimit("the same cursor twice, %q", plain.Line(cursor, 100))
		case l.left <= 0:
			return tool.Listing{}, l.failLimit("more than %d bytes", limits.ListBytes)
		}
		l.cursors[cursor] = true
	}
}

// sender sends a request to one server.
type sender func(context.Context, *session.Request) (json.RawMessage, session.Info, *tool.Failure)

// lister collects the pages of a tools/list.
type lister struct {
	limits  Limits
	listing tool.Listing
	names   map[string]bool
	cursors map[string]bool
	count   int
	left    int64 // bytes
}

// maxTTL bounds the time to live that a server may set for a listing.
const maxTTL = 24 * time.Hour

// failLimit returns the failure of a listing that exceeds a limit.
func (l *lister) failLimit(format string, args ...any) *tool.Failure {
	f := session.NewProtocolFailure(nil, nil, "tools/list: the server sent %s", fmt.Sprintf(format, args...))
	f.Effect = tool.EffectNone
	return f
}

// addPage adds a page's tools to the listing, and skips tools that cannot be offered.
func (l *lister) addPage(p page, headers bool) *tool.Failure {
	if l.count += len(p.tools); l.count > l.limits.Tools {
		return l.failLimit("more than %d tools", l.limits.Tools)
	}
	if p.ttl != nil && (l.listing.TTL == nil || *p.ttl < *l.listing.TTL) {
		l.listing.TTL = p.ttl
	}
	for _, raw := range p.tools {
		definition, err := tool.ParseDefinition(raw)
		switch {
		case err != nil:
			var named struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(raw, &named) != nil {
				named.Name = ""
			}
			l.skipTool(named.Name, plain.Line(err.Error(), 300))
			continue
		case l.names[definition.Name]:
			l.skipTool(definition.Name, "another tool of this server has the same name")
			continue
		}
		if headers {
			if _, err := streamable.ReadBindings(definition.InputSchema); err != nil {
				l.skipTool(definition.Name, plain.Line(err.Error(), 300))
				continue
			}
		}
		l.names[definition.Name] = true
		l.listing.Tools = append(l.listing.Tools, definition)
	}
	return nil
}

func (l *lister) skipTool(name, reason string) {
	l.listing.Skipped = append(l.listing.Skipped, tool.Skipped{Name: plain.Line(name, 256), Reason: reason})
}

// page is one result of tools/list.
type page struct {
	tools  []json.RawMessage
	cursor string
	ttl    *time.Duration
}

// readPage reads a result of tools/list.
func readPage(raw json.RawMessage) (page, error) {
	var p page
	found := false
	err := session.EachMember(raw, func(name string, value json.RawMessage) error {
		var err error
		switch name {
		case "tools":
			found = len(value) > 0 && value[0] == '['
			err = json.Unmarshal(value, &p.tools)
		case "nextCursor":
			err = json.Unmarshal(value, &p.cursor) // null means none
		case "ttlMs":
			p.ttl = readTTL(value)
		case "resultType":
			if string(value) != `"complete"` {
				err = fmt.Errorf("resultType %s", plain.Line(string(value), 100))
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

// readTTL reads a number of milliseconds. It returns nil if there is no such number.
func readTTL(value json.RawMessage) *time.Duration {
	var ms *float64
	if err := json.Unmarshal(value, &ms); err != nil || ms == nil || *ms < 0 {
		return nil
	}
	ttl := time.Duration(min(*ms, float64(maxTTL.Milliseconds())) * float64(time.Millisecond))
	return &ttl
}
