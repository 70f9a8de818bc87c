package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestRecording(t *testing.T) {
	t.Parallel()
	r := &recording{}
	r.typeLine("ls")
	r.printText("a <b>\n" + strings.Repeat("x", columns+1))
	cast, err := r.encodeCast()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"height":5,"title":"Holdpoint: a call waits for its approval","version":2,"width":110}
[0.9,"o","$ "]
[0.925,"o","l"]
[0.95,"o","s"]
[0.95,"o","\r\n"]
[1.46,"o","a <b>\r\n"]
[1.52,"o","` + strings.Repeat("x", columns+1) + `\r\n"]
`
	if string(cast) != want {
		t.Errorf("the asciicast is\n%s\nwant\n%s", cast, want)
	}
	for _, part := range []string{
		`class="typed" style="animation-delay:0.95s">$ ls</text>`, `style="animation-delay:1.46s">a &lt;b&gt;</text>`, `y="81" style="animation-delay:1.52s">x</text>`,
	} {
		if svg := string(r.drawSVG()); !strings.Contains(svg, part) {
			t.Errorf("the SVG has no %s:\n%s", part, svg)
		}
	}
}

// TestCommittedRecording: docs has a recording of a call that waited and succeeded, in both forms.
func TestCommittedRecording(t *testing.T) {
	t.Parallel()
	cast, err := os.ReadFile("../../docs/demo.cast")
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for line := range strings.Lines(string(cast)) {
		var e []any
		if !strings.HasPrefix(line, "[") {
			continue // the header
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || len(e) != 3 || e[0].(float64) < last {
			t.Fatalf("%s: %v, after %v", line, err, last)
		}
		last, _ = e[0].(float64)
	}
	svg, err := os.Open("../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	defer svg.Close()
	var text strings.Builder
	for tokens := xml.NewDecoder(svg); ; {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if words, ok := token.(xml.CharData); ok {
			text.Write(words)
		}
	}
	for _, part := range []string{"waiting for approval: call ", "The call is approved.", "CSV saved to "} {
		if !strings.Contains(text.String(), part) || !strings.Contains(string(cast), part) {
			t.Errorf("the recording does not show %q", part)
		}
	}
}
