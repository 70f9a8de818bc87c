package tool_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestExposedName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60)
	for _, tc := range []struct{ prefix, name, want string }{
		{"files", "write_file", "files__write_file"},
		{"files", "get-sum", "files__get-sum"},
		{"", "write_file", "write_file"},
		{"x", strings.Repeat("b", 61), "x__" + strings.Repeat("b", 61)},
		{"x", strings.Repeat("b", 62), "x__" + strings.Repeat("b", 52) + "_21e5819f"},
		{"mail", "send.now", "mail__send_now_cf4fd24f"},
		{"mail", "send/now", "mail__send_now_1183a9e0"},
		{"mail", "schicken ✉", "mail__schicken___6bd52002"},
		{long, "one", long[:55] + "_7233e604"},
		{long, "two", long[:55] + "_6cdfd392"},
		{"", "", "_6e340b9c"},
	} {
		if got := tool.ExposedName(tc.prefix, tc.name); got != tc.want {
			t.Errorf("ExposedName(%q, %q) = %q, want %q", tc.prefix, tc.name, got, tc.want)
		}
	}
}

var exposable = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func FuzzExposedName(f *testing.F) {
	f.Add("files", "write_file", "write.file")
	f.Add("", "a", "A")
	f.Add(strings.Repeat("p", 63), "a", "b")
	f.Add("x", "a\xff", "a\xfe")
	f.Add("x", strings.Repeat("é", 100), strings.Repeat("è", 100))
	f.Fuzz(func(t *testing.T, prefix, one, two string) {
		first, second := tool.ExposedName(prefix, one), tool.ExposedName(prefix, two)
		if !exposable.MatchString(first) {
			t.Errorf("%q", first)
		}
		if one != two && first == second {
			t.Errorf("%q and %q are both %q", one, two, first)
		}
		if again := tool.ExposedName(prefix, one); again != first {
			t.Errorf("%q, then %q", first, again)
		}
	})
}

func TestExposedNamesOfManyDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, prefix := range []string{"a", "a_b", "a-b", strings.Repeat("q", 58)} {
		for i := range 2000 {
			for _, form := range []string{"t%d", "t.%d", "t/%d", "t %d", "a_b__t%d", "b__t%d", strings.Repeat("l", 70) + "%d"} {
				name := fmt.Sprintf(form, i)
				exposed := tool.ExposedName(prefix, name)
				key := prefix + "\x00" + name
				if other, taken := seen[exposed]; taken {
					t.Fatalf("%q and %q are both %q", other, key, exposed)
				}
				seen[exposed] = key
			}
		}
	}
}
