package mcpserver

import (
	"runtime"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// awaitTool is the synthetic tool that every agent has.
const awaitTool = "holdpoint_await"

const awaitDefinition = `{"name":"` + awaitTool + `","title":"Wait for a call",` +
	`"description":"Waits for a tool call that was made before and has not ended yet, ` +
	`for example because a person has to approve it, and returns its result. ` +
	`Also reads on in the result of one that has ended and was too long to be told at once. It does not make the call again.",` +
	`"inputSchema":{"type":"object","properties":{"call_id":{"type":"string","description":"The id of the call, as it was given."},` +
	`"page":{"type":"integer","minimum":1,"description":"Which page of a long result, as the note at the end of the one before says."}},` +
	`"required":["call_id"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`

// How long a client of the modern era may use a list. One that lacks the tools of a
// skill that could not be listed is soon asked for again.
const (
	listTTL        = time.Minute
	problemListTTL = 5 * time.Second
)

// listTools answers with a page of the conversation's catalog.
func (x *exchange) listTools() {
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	tools, err := x.lists.of(conversation.Catalog)
	if err != nil {
		x.internal("list tools", err)
		return
	}
	page, ok := tools.page(x.msg.cursor)
	if !ok {
		x.unknownCursor()
		return
	}
	if err := x.result(x.dressList(page, conversation.Problems, listTTL)...); err != nil {
		x.left(err)
		return
	}
	if !x.modern && x.r.Header.Get(headerSession) != "" {
		x.watch.listed(conversation.ID, conversation.Catalog.Digest())
	}
}

func (x *exchange) unknownCursor() {
	x.fail(&jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "/params/cursor: unknown, or the list has changed since; begin anew without one",
	})
}

// dressList puts around a page of a list what belongs to this conversation and era.
func (x *exchange) dressList(page []byte, problems []catalog.Problem, ttl time.Duration) [][]byte {
	head, tail := []byte("{"), []byte(nil)
	if len(problems) > 0 {
		tail = append(append(tail, `"`+metaProblems+`":`...), shownProblems(problems)...)
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

// shownProblems bounds what a broken server may say of itself.
func shownProblems(problems []catalog.Problem) []byte {
	shown := make([]catalog.Problem, len(problems))
	for i, p := range problems {
		shown[i] = catalog.Problem{Skill: plain.Visible(p.Skill, maxShown), Kind: plain.Visible(p.Kind, maxShown), Error: plain.Visible(p.Error, maxReason)}
	}
	return marshal(shown)
}

// lists keeps the rendered list of each catalog for as long as somebody uses
// the catalog.
type lists struct {
	mu       sync.Mutex
	rendered map[weak.Pointer[catalog.Catalog]]*pages
}

func newLists() *lists {
	return &lists{rendered: make(map[weak.Pointer[catalog.Catalog]]*pages)}
}

// of returns the tools of a catalog, in pages.
func (l *lists) of(c *catalog.Catalog) (*pages, error) {
	key := weak.Make(c)
	l.mu.Lock()
	tools, ok := l.rendered[key]
	l.mu.Unlock()
	if ok {
		return tools, nil
	}
	tools, err := render(c)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.rendered[key]; !ok {
		l.rendered[key] = tools
		runtime.AddCleanup(c, l.forget, key)
	}
	return tools, nil
}

func (l *lists) forget(key weak.Pointer[catalog.Catalog]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rendered, key)
}

func render(c *catalog.Catalog) (*pages, error) {
	tools := make([][]byte, 0, len(c.Entries)+1)
	for i := range c.Entries {
		entry := &c.Entries[i]
		if entry.Name == awaitTool {
			continue // ours is the one that is called
		}
		definition := entry.Tool.Raw()
		if definition == nil {
			definition = marshal(entry.Tool)
		}
		renamed, err := rename(definition, entry.Name)
		if err != nil {
			return nil, err
		}
		tools = append(tools, renamed)
	}
	return paged("tools", append(tools, []byte(awaitDefinition))), nil
}
