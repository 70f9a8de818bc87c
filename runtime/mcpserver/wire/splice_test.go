package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// Without the added members a dressed result equals the original, and each member but _meta keeps its bytes.
func TestDressLeavesContentAlone(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	addition := []byte(`"dev.holdpoint/call":{"id":"x"}`)
	for range 1000 {
		raw, content := randomResult(random)
		for _, typed := range []bool{false, true} {
			for _, added := range [][]byte{nil, addition} {
				pieces, err := wire.DressResult(raw, added, typed)
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
			delete(before, "_meta") // a _meta of another type is replaced
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

// randomResult returns a result with its members in random order, with random white space.
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
		if pieces, err := wire.DressResult([]byte(raw), []byte(`"a":1`), true); err == nil {
			t.Errorf("%s: %s", raw, bytes.Join(pieces, nil))
		}
	}
	pieces, err := wire.DressResult([]byte(`{}`), []byte(`"a":1`), true)
	if got := string(bytes.Join(pieces, nil)); err != nil || got != `{"resultType":"complete","_meta":{"a":1}}` {
		t.Errorf("%s %v", got, err)
	}
}

func TestMakePrivate(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`:                                 `{"cacheScope":"private","ttlMs":0}`,
		`{"a":[1, 2],"cacheScope":"public"}`: `{"a":[1, 2],"cacheScope":"private","ttlMs":0}`,
		`{ "ttlMs": 5, "\u0061": 1, "cacheScope": "x"}`: `{"ttlMs":5,"\u0061":1,"cacheScope":"private"}`,
	} {
		if got, err := wire.MakePrivate([]byte(raw)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", raw, got, err, want)
		}
	}
}

func TestPrependText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"content":[ ]}`:             `{"content":[{"type":"text","text":"a\"b"} ]}`,
		`{"content":[{"a":1}],"b":2}`: `{"content":[{"type":"text","text":"a\"b"},{"a":1}],"b":2}`,
		`{"content":null}`:            `{"content":null}`,
		`{}`:                          `{}`,
	} {
		if got := wire.PrependText([]byte(raw), `a"b`); string(got) != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestUnquote(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{``: ``, `12345`: `12345`, `"a"`: `a`, `"\u0061\n"`: "a\n", `"`: `"`} {
		if got := wire.Unquote([]byte(raw)); string(got) != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
