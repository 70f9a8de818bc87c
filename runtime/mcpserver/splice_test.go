package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// Whatever a result looks like: with what was added taken away again, it is the
// result, and every member but _meta has its bytes.
func TestDressLeavesContentAlone(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	addition := []byte(`"dev.holdpoint/call":{"id":"x"}`)
	for range 1000 {
		raw, content := randomResult(random)
		for _, typed := range []bool{false, true} {
			for _, added := range [][]byte{nil, addition} {
				pieces, err := mcpserver.Dress(raw, added, typed)
				if err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				checkDressed(t, raw, bytes.Join(pieces, nil), content, added != nil, typed)
			}
		}
	}
}

func checkDressed(t *testing.T, raw, dressed []byte, content string, added, typed bool) {
	t.Helper()
	var before, after map[string]any
	if err := json.Unmarshal(raw, &before); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if err := json.Unmarshal(dressed, &after); err != nil {
		t.Fatalf("%s: %v", dressed, err)
	}
	if !bytes.Contains(dressed, []byte(content)) {
		t.Fatalf("content changed:\n%s\n%s", raw, dressed)
	}
	if meta, ok := after["_meta"].(map[string]any); ok && added {
		if meta["dev.holdpoint/call"] == nil {
			t.Fatalf("nothing added: %s", dressed)
		}
		delete(meta, "dev.holdpoint/call")
		if old, ok := before["_meta"].(map[string]any); !ok {
			delete(before, "_meta") // a _meta that is no object is replaced
			delete(after, "_meta")
		} else {
			delete(old, "dev.holdpoint/call")
		}
	} else if added {
		t.Fatalf("no _meta: %s", dressed)
	} else if old, ok := before["_meta"].(map[string]any); ok {
		delete(old, "dev.holdpoint/call")
	}
	if typed && before["resultType"] == nil {
		if after["resultType"] != "complete" {
			t.Fatalf("no resultType: %s", dressed)
		}
		delete(after, "resultType")
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Fatalf("%s\n%s\n%s", raw, dressed, diff)
	}
}

// randomResult makes an object of members in any order, with any white space.
func randomResult(random *rand.Rand) (raw []byte, content string) {
	space := func() string { return []string{"", " ", "\n\t", "\r\n"}[random.IntN(4)] }
	content = fmt.Sprintf(`[%s{"type":"text",%s"text":"\u00e4 %d \"_meta\" { [ \\"}]`, space(), space(), random.IntN(100))
	members := []string{`"content"` + space() + ":" + space() + content}
	for _, member := range []string{
		`"structuredContent":{"_meta":{"a":[1e300,-0]},"resultType":"x"}`, `"isError":false`, `"resultType":"complete"`, `"x\ny":9007199254740993`,
	} {
		if random.IntN(2) == 0 {
			members = append(members, member)
		}
	}
	switch random.IntN(6) {
	case 0:
		members = append(members, `"_meta":`+space()+`{`+space()+`}`)
	case 1:
		members = append(members, `"_meta":{"a\u0062":`+space()+`{"c":[]}`+space()+`}`)
	case 2:
		members = append(members, `"\u005fmeta":{"a":1,"dev.holdpoint/call":{"forged":true},"z":2}`)
	case 3:
		members = append(members, `"_meta":null`)
	}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte(space() + "{" + space() + strings.Join(members, space()+","+space()) + space() + "}" + space()), content
}

func TestDressRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `[]`, `"x"`, `{`, `{"_meta":{},"_meta":{}}`, `{"a":}`} {
		if pieces, err := mcpserver.Dress([]byte(raw), []byte(`"a":1`), true); err == nil {
			t.Errorf("%s: %s", raw, bytes.Join(pieces, nil))
		}
	}
	pieces, err := mcpserver.Dress([]byte(`{}`), []byte(`"a":1`), true)
	if got := string(bytes.Join(pieces, nil)); err != nil || got != `{"resultType":"complete","_meta":{"a":1}}` {
		t.Errorf("%s %v", got, err)
	}
}
