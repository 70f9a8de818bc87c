package mcpserver

import (
	"runtime"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// awaitTool is the synthetic tool that every agent has.
const awaitTool = "holdpoint_await"

const awaitDefinition = `{"name":"` + awaitTool + `","title":"Wait for a call",` +
	`"description":"Waits for an earlier tool call that has not ended yet, ` +
	`for example because a person has to approve it, and returns its result. ` +
	`Also returns further pages of a result that was too long for one answer. It does not make the call again.",` +
	`"inputSchema":{"type":"object","properties":{"call_id":{"type":"string","description":"The id of the call, from its answer."},` +
	`"page":{"type":"integer","minimum":1,"description":"The page of a long result, as the note on the previous page says."}},` +
	`"required":["call_id"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`

// How long a client of the modern era may cache a list; shorter if the tools of a
// skill are missing.
const (
	listTTL        = time.Minute
	problemListTTL = 5 * time.Second
)

// listTools answers with a page of the conversation's catalog.
func (x *exchange) listTools() {
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	tools, err := x.lists.pagesOf(conversation.Catalog)
	if err != nil {
		x.failInternal("list tools", err)
		return
	}
	page, ok := tools.Find(x.msg.Cursor)
	if !ok {
		x.unknownCursor()
		return
	}
	if err := x.writeResult(x.dressList(page, conversation.Problems, listTTL)...); err != nil {
		x.noteClientLeft(err)
		return
	}
	if !x.modern && x.r.Header.Get(wire.HeaderSession) != "" {
		x.watch.noteListed(conversation.ID, conversation.Catalog.Digest())
	}
}

func (x *exchange) unknownCursor() {
	x.fail(wire.InvalidParams("/params/cursor: unknown, or the list has changed: start again without a cursor"))
}

// dressList adds the members of this conversation and era to a page of a list.
func (x *exchange) dressList(page []byte, problems []catalog.Problem, ttl time.Duration) [][]byte {
	head, tail := []byte("{"), []byte(nil)
	if len(problems) > 0 {
		shown := make([]catalog.Problem, len(problems)) // with bounded texts
		for i, p := range problems {
			shown[i] = catalog.Problem{Skill: plain.Visible(p.Skill, wire.MaxShown), Kind: plain.Visible(p.Kind, wire.MaxShown), Error: plain.Visible(p.Error, maxReason)}
		}
		tail = append(append(tail, `"`+metaProblems+`":`...), marshal(shown)...)
		ttl = min(ttl, problemListTTL)
	}
	if x.modern {
		head = []byte(`{"resultType":"complete","ttlMs":` + strconv.FormatInt(ttl.Milliseconds(), 10) + `,"cacheScope":"private",`)
		if tail != nil {
			tail = append(tail, ',')
		}
		tail = append(append(tail, `"`+mcp.MetaKeyServerInfo+`":`...), x.info...)
	}
	if tail == nil {
		return [][]byte{head, page, []byte("}")}
	}
	return [][]byte{head, page, []byte(`,"_meta":{`), tail, []byte("}}")}
}

// lists caches the rendered list of each catalog while the catalog is in use.
type lists struct {
	mu       sync.Mutex
	rendered map[weak.Pointer[catalog.Catalog]]*wire.Pages
}

// pagesOf returns the tools of a catalog, in pages.
func (l *lists) pagesOf(c *catalog.Catalog) (*wire.Pages, error) {
	key := weak.Make(c)
	l.mu.Lock()
	tools, ok := l.rendered[key]
	l.mu.Unlock()
	if ok {
		return tools, nil
	}
	tools, err := renderTools(c)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.rendered[key]; !ok {
		l.rendered[key] = tools
		runtime.AddCleanup(c, func(key weak.Pointer[catalog.Catalog]) {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.rendered, key)
		}, key)
	}
	return tools, nil
}

func renderTools(c *catalog.Catalog) (*wire.Pages, error) {
	tools := make([][]byte, 0, len(c.Entries)+1)
	for i := range c.Entries {
		entry := &c.Entries[i]
		if entry.Name == awaitTool {
			continue // Holdpoint's own tool takes precedence
		}
		definition := entry.Tool.Raw()
		if definition == nil {
			definition = marshal(entry.Tool)
		}
		renamed, err := wire.RenameTool(definition, entry.Name)
		if err != nil {
			return nil, err
		}
		tools = append(tools, renamed)
	}
	return wire.NewPages("tools", append(tools, []byte(awaitDefinition))), nil
}
