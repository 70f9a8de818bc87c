package hostile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// drawn renders pieces so that each kind can be told apart: ‹U+202E›, ‹\n›×3, ⚠word(why).
func drawn(pieces []hostile.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		switch p.Kind {
		case hostile.Plain:
			b.WriteString(p.Text)
		case hostile.Chip, hostile.Break:
			b.WriteString("‹" + p.Text + "›")
			if p.Count > 1 {
				fmt.Fprintf(&b, "×%d", p.Count)
			}
		case hostile.Secret:
			b.WriteString("‹secret " + p.Text + "›")
		case hostile.Suspect:
			b.WriteString("⚠" + p.Text + "(" + p.Note.String() + ")")
		}
	}
	return b.String()
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "Write 3 files, please: a.txt", "Write 3 files, please: a.txt"},
		{"markup is text", `<b>x</b> <script>`, `<b>x</b> <script>`},
		{"right-to-left override", "invoice\u202Efdp.exe", "invoice‹U+202E›fdp.exe"},
		{"isolates", "a\u2066b\u2069", "a‹U+2066›b‹U+2069›"},
		{"zero width in a word", "pay\u200Bpal", "pay‹U+200B›pal"},
		{"joiners in a row", "a\u200D\u200D\u200Db", "a‹U+200D›×3b"},
		{"tag characters", "hi\U000E0068\U000E0069", "hi‹U+E0068›‹U+E0069›"},
		{"no-break space", "rm\u00A0-rf", "rm‹U+00A0›-rf"},
		{"ideographic space", "a\u3000b", "a‹U+3000›b"},
		{"Hangul filler", "a\u3164b", "a‹U+3164›b"},
		{"half-width filler", "\uFFA0", "‹U+FFA0›"},
		{"Braille blank", "a\u2800b", "a‹U+2800›b"},
		{"variation selector", "a\uFE0Fb\U000E0101", "a‹U+FE0F›b‹U+E0101›"},
		{"grapheme joiner in a word", "a\u034Fb", "a‹U+034F›b"},
		{"soft hyphen", "pass\u00ADword", "pass‹U+00AD›word"},
		{"terminal colours", "\x1b[31mred\x1b[0m", "‹U+001B›[31mred‹U+001B›[0m"},
		{"null and delete", "a\x00b\x7f", "a‹U+0000›b‹U+007F›"},
		{"byte order mark", "\uFEFFa", "‹U+FEFF›a"},
		{"line separator", "a\u2028b", "a‹U+2028›b"},
		{"private use", "a\uE000", "a‹U+E000›"},
		{"unassigned", "a\U0003FFFE", "a‹U+3FFFE›"},
		{"invalid UTF-8", "a\xffb\xc3", `a‹\xFF›b‹\xC3›`},
		{"lines", "a\nb", `a‹\n›b`},
		{"newline padding", "ok\n\n\n\nrm", `ok‹\n›×4rm`},
		{"tab and return", "a\tb\r\n", `a‹\t›b‹\r›‹\n›`},
		{"spaces at the ends", " a ", "‹space›a‹space›"},
		{"spaces before a line's end", "a  \nb", `a‹space›×2‹\n›b`},
		{"spaces that push", "ok" + strings.Repeat(" ", 400) + "rm", "ok‹space›×400rm"},
		{"indentation", "if:\n    a", `if:‹\n›    a`},
		{"mark without a letter", "\u0301a", "‹U+0301›a"},
		{"marks on a letter", "e\u0301", "e\u0301"},
		{"too many marks", "e" + strings.Repeat("\u0336", 20), "e" + strings.Repeat("\u0336", 4) + "‹U+0336›×16"},
		{"emoji with a selector", "❤\uFE0F", "❤‹U+FE0F›"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := drawn(hostile.Show(tt.text)); got != tt.want {
				t.Errorf("Show(%q)\n got %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

func TestShowSuspectWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"Cyrillic in a Latin word", "ask p\u0430ypal now", "ask ⚠p\u0430ypal(mixes Latin and Cyrillic) now"},
		{"Greek in a Latin word", "g\u03BFogle", "⚠g\u03BFogle(mixes Latin and Greek)"},
		{"all letters look Latin", "\u0440\u0430\u0443", "⚠\u0440\u0430\u0443(Cyrillic letters that look like Latin ones)"},
		{"honest Russian", "рост и сон", "рост и сон"},
		{"honest Greek", "ναι, και όχι", "ναι, και όχι"},
		{"honest Japanese", "PDFファイルを送る", "PDFファイルを送る"},
		{"accents", "café naïve Łódź", "café naïve Łódź"},
		{"mathematical letters", "𝐩𝐚𝐲", "⚠𝐩𝐚𝐲(look-alike letters for “pay”)"},
		{"full-width letters", "ｒｍ", "⚠ｒｍ(look-alike letters for “rm”)"},
		{"host", "https://\u0430pple.com/x", "https://⚠\u0430pple.com(this address is really xn--pple-43d.com)/x"},
		{"host below a domain", "www.ex\u0430mple.org", "⚠www.ex\u0430mple.org(this address is really www.xn--exmple-4nf.org)"},
		{"host of another alphabet", "https://пример.рф", "https://⚠пример.рф(this address is really xn--e1afmkfd.xn--p1ai)"},
		{"the end of a sentence", "Привет.Как дела", "Привет.Как дела"},
		{"mail", "a@b\u00FCcher.de", "a@⚠b\u00FCcher.de(this address is really xn--bcher-kva.de)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := drawn(hostile.Show(tt.text)); got != tt.want {
				t.Errorf("Show(%q)\n got %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

// Visible letters and digits keep their order, and plain pieces have no invisible characters.
func FuzzShow(f *testing.F) {
	for _, seed := range []string{"a", "p\u0430ypal.com", "\xff\u202e", "e\u0301\u0301\u0301\u0301\u0301\u0301", " \n ", "a.b-ü.de"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var back strings.Builder
		for _, p := range hostile.Show(text) {
			if p.Count < 1 || p.Text == "" {
				t.Fatalf("piece %+v of %q", p, text)
			}
			if p.Kind == hostile.Plain || p.Kind == hostile.Suspect {
				back.WriteString(p.Text)
				if strings.ContainsFunc(p.Text, func(r rune) bool { return r < ' ' || r == '\u202e' || r == 0x7f }) {
					t.Fatalf("%q is shown as it is, of %q", p.Text, text)
				}
			}
		}
		keep := func(r rune) rune {
			if r > ' ' && r < 0x7f {
				return r
			}
			return -1
		}
		if got, want := strings.Map(keep, back.String()), strings.Map(keep, text); got != want {
			t.Fatalf("shown %q of %q", got, want)
		}
	})
}
