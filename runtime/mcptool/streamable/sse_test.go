package streamable_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdpoint/holdpoint/runtime/mcptool/streamable"
)

func TestReadEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	tests := map[string]struct {
		stream string
		want   []string
		lastID string
	}{
		"one":                 {"data: a\n\n", []string{"a"}, ""},
		"no space":            {"data:a\n\n", []string{"a"}, ""},
		"two spaces":          {"data:  a\n\n", []string{" a"}, ""},
		"CRLF":                {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}, ""},
		"lines":               {"data: a\ndata: b\ndata:\n\n", []string{"a\nb\n"}, ""},
		"long lines":          {"data: " + long + "\ndata: b\ndata: " + long + "\n\n", []string{long + "\nb\n" + long}, ""},
		"two long":            {"data: " + long + "\n\ndata: " + long + "y\n\n", []string{long, long + "y"}, ""},
		"long comment":        {": " + long + "\ndata: a\n\n", []string{"a"}, ""},
		"comments and fields": {": hi\nretry: 5\nfoo: bar\nfoo\ndata: a\n\n", []string{"a"}, ""},
		"other names":         {"event: ping\ndata: a\n\nevent: message\ndata: b\n\n", []string{"b"}, ""},
		"ids":                 {"id: 1\ndata:\n\nid: 2\ndata: a\n\ndata: b\n\n", []string{"a", "b"}, "2"},
		"id of half an event": {"id: 1\ndata: a\n\nid: 2\n", []string{"a"}, "1"},
		"no end":              {"data: a\n\ndata: b", []string{"a", "b"}, ""},
		"blank lines":         {"\n\n\ndata: a\n\n\n\n", []string{"a"}, ""},
		"nothing":             {"", nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, source := range []io.Reader{strings.NewReader(test.stream), iotest.OneByteReader(strings.NewReader(test.stream)), iotest.DataErrReader(strings.NewReader(test.stream))} {
				got, lastID, err := streamable.ReadEvents(source, 10_000)
				if !slices.Equal(got, test.want) || lastID != test.lastID || !errors.Is(err, io.EOF) {
					t.Errorf("got %q, last id %q, %v", got, lastID, err)
				}
			}
		})
	}
}

func TestEventsBeyondTheirBound(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{
		"data: " + strings.Repeat("x", 200),
		strings.Repeat("data: x\n", 50),
		strings.Repeat("foo: x\n", 50),
		":" + strings.Repeat("x", 200) + "\n",
	} {
		got, _, err := streamable.ReadEvents(strings.NewReader("data: a\n\n"+stream+"\n\n"), 100)
		if len(got) != 1 || err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%.20q: got %q, %v", stream, got, err)
		}
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("data: a\n\nid: 1\r\nevent: x\ndata:b\n: c\n\ndata: " + strings.Repeat("y", 40))
	f.Fuzz(func(t *testing.T, stream string) {
		whole, id, _ := streamable.ReadEvents(strings.NewReader(stream), 200)
		bytewise, same, _ := streamable.ReadEvents(iotest.OneByteReader(strings.NewReader(stream)), 200)
		if !slices.Equal(whole, bytewise) || id != same {
			t.Errorf("%q and %q, last id %q and %q", whole, bytewise, id, same)
		}
	})
}
