package view_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func TestPieces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, block, inline string
	}{
		{"markup", `<b>"&'`, `&lt;b&gt;&#34;&amp;&#39;`, `&lt;b&gt;&#34;&amp;&#39;`},
		{
			"chip", "a\u202eb",
			`a<abbr class="chip" title="right-to-left override">U+202E</abbr>b`,
			`a<abbr class="chip" title="right-to-left override">U+202E</abbr>b`,
		},
		{"ordinary", "a\tb", `a<abbr class="chip dim" title="tab">\t</abbr>b`, `a<abbr class="chip dim" title="tab">\t</abbr>b`},
		{
			"lines", "a\n\nb",
			`a<abbr class="chip nl" title="line break">\n</abbr>` + "\n" + `<abbr class="chip nl" title="line break">\n</abbr>` + "\nb",
			`a<abbr class="chip nl" title="line break">\n</abbr><abbr class="chip nl" title="line break">\n</abbr>b`,
		},
		{
			"many lines", "a" + strings.Repeat("\n", 1234) + "b",
			`a<abbr class="chip nl" title="line break">\n ×1,234</abbr>` + "\nb",
			`a<abbr class="chip nl" title="line break">\n ×1,234</abbr>b`,
		},
		{
			"words from right to left", "/srv/\u05d0\u05d1 \u05d2\u05b0/100 <\u0627>",
			"/srv/<bdi dir=\"rtl\">\u05d0\u05d1 \u05d2\u05b0</bdi>/100 &lt;<bdi dir=\"rtl\">\u0627</bdi>&gt;",
			"/srv/<bdi dir=\"rtl\">\u05d0\u05d1 \u05d2\u05b0</bdi>/100 &lt;<bdi dir=\"rtl\">\u0627</bdi>&gt;",
		},
		{
			"suspect", "p\u0430y",
			`<mark title="mixes Latin and Cyrillic">p` + "\u0430" + `y</mark><span class="chip why">mixes Latin and Cyrillic</span>`,
			`<mark title="mixes Latin and Cyrillic">p` + "\u0430" + `y</mark>`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for flow, want := range map[view.Flow]string{view.Block: tt.block, view.Inline: tt.inline} {
				var b strings.Builder
				if err := view.Pieces(hostile.Show(tt.text), flow).Render(t.Context(), &b); err != nil {
					t.Fatal(err)
				}
				if b.String() != want {
					t.Errorf("inline %v:\n got %s\nwant %s", flow, b.String(), want)
				}
			}
		})
	}
}

func TestNotesAreInTheReadersLanguage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ language, shown, want string }{
		{"de", "p\u0430y", "mischt lateinisch und kyrillisch"},
		{"de", "a\u202eb", `title="erzwungene Schreibrichtung von rechts nach links">U+202E<`},
		{"de", " a", `title="Leerzeichen">Leerzeichen<`},
		{"ja", "https://\u0430pple.com/", "このアドレスの実体は xn--pple-43d.com です"},
		{"ja", "", `title="文字のないテキスト">空<`},
		{"ja", "\u13A0\u13A1\u13A2", "ラテン文字に見えるチェロキー文字"},
	} {
		var b strings.Builder
		if err := view.Pieces(hostile.ShowValue(tt.shown), view.Block).Render(text.WithLanguage(t.Context(), tt.language), &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tt.want) {
			t.Errorf("%q in %s: got %s, want %s", tt.shown, tt.language, b.String(), tt.want)
		}
	}
}

// A text must not be able to close its own frame.
func TestTextStaysInItsFrame(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := view.Text(`</bdi><script>x</script>`).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if want := `<bdi dir="ltr">&lt;/bdi&gt;&lt;script&gt;x&lt;/script&gt;</bdi>`; b.String() != want {
		t.Errorf("got %s", b.String())
	}
}
