package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// manyTools returns a catalog of n tools.
func manyTools(t *testing.T, n int) *catalog.Catalog {
	t.Helper()
	definitions := make([]string, n)
	for i := range definitions {
		definitions[i] = fmt.Sprintf(`{"name":"t%05d","inputSchema":{"type":"object"}}`, i)
	}
	return newCatalog(t, definitions...)
}

// readPages reads all pages of a list.
func readPages(t *testing.T, b *bench, method, member string, headers ...string) (names []string, pages int) {
	t.Helper()
	for cursor := ""; ; {
		params := ""
		if cursor != "" {
			params = `"cursor":"` + cursor + `"`
		}
		result := memberAt(decodeJSON(t, b.post(formatRequest(method, params), headers...).body), "result")
		list, ok := memberAt(result, member).([]any)
		if !ok {
			t.Fatalf("page %d: %v", pages, result)
		}
		for _, e := range list {
			for _, key := range []string{"name", "uri"} {
				if name, ok := memberAt(e, key).(string); ok {
					names = append(names, name)
				}
			}
		}
		pages++
		next, more := memberAt(result, "nextCursor").(string)
		if !more {
			return names, pages
		}
		cursor = next
	}
}

func TestFiveThousandToolsComeInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agents.relist(manyTools(t, 5000))
	session := b.startSession()
	names, pages := readPages(t, b, "tools/list", "tools", session...)
	if len(names) != 5001 || pages != 6 || names[5000] != "holdpoint_await" {
		t.Fatalf("%d tools on %d pages", len(names), pages)
	}
	for i, name := range names[:5000] {
		if want := fmt.Sprintf("files__t%05d", i); name != want {
			t.Fatalf("tool %d is %s, want %s", i, name, want)
		}
	}
	next, _ := memberAt(decodeJSON(t, b.post(listBody, session...).body), "result", "nextCursor").(string)
	again, _ := memberAt(decodeJSON(t, b.post(listBody, session...).body), "result", "nextCursor").(string)
	if next == "" || next != again {
		t.Errorf("cursors %q and %q of one list", next, again)
	}
	unknown := func(cursor string) {
		t.Helper()
		v := decodeJSON(t, b.post(formatRequest("tools/list", `"cursor":"`+cursor+`"`), session...).body)
		if memberAt(v, "error", "code") != -32602.0 {
			t.Errorf("cursor %q: %v", cursor, memberAt(v, "error"))
		}
	}
	for _, cursor := range []string{"x", next + "A", next[:len(next)-1], strings.Repeat("A", len(next)), "AAAA", `\u0000`} {
		unknown(cursor)
	}
	b.agents.relist(manyTools(t, 4999))
	unknown(next)
}

func TestOrdinaryListsAreOnePage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agents.relist(manyTools(t, 999))
	if names, pages := readPages(t, b, "tools/list", "tools", b.startSession()...); len(names) != 1000 || pages != 1 {
		t.Errorf("%d tools on %d pages", len(names), pages)
	}
}

func TestLargeEntriesMakeShortPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var list resource.List
	for i := range 5 {
		uri := fmt.Sprintf("x:%d", i)
		raw := json.RawMessage(fmt.Sprintf(`{"uri":%q,"description":%q}`, uri, strings.Repeat("d", 700<<10)))
		list.Entries = append(list.Entries, resource.Entry{Name: uri, Raw: raw})
	}
	b.others.lists = map[resource.Kind]resource.List{resource.Resources: list}
	names, pages := readPages(t, b, "resources/list", "resources", b.startSession()...)
	if strings.Join(names, " ") != "x:0 x:1 x:2 x:3 x:4" || pages != 5 {
		t.Errorf("%v on %d pages", names, pages)
	}
}
