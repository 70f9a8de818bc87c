package cli_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, with\ttabs\nand lines":       "plain, with\ttabs\nand lines",
		"åäö 漢字 😀 ½":                         "åäö 漢字 😀 ½",
		"\x1b[31mred\x07\r\x00":              "<U+001B>[31mred<U+0007><U+000D><U+0000>",
		"\u202eevil\u2066\u200f":             "<U+202E>evil<U+2066><U+200F>",
		"\u200b\u2060\ufeff\u00ad":           "<U+200B><U+2060><U+FEFF><U+00AD>",
		"\U000e0041\ufe0f\U000e0100":         "<U+E0041><U+FE0F><U+E0100>",
		"a\u00a0b\u2003c\u3164d\u115f\u2800": "a<U+00A0>b<U+2003>c<U+3164>d<U+115F><U+2800>",
		"\u2028\u2029\u0085":                 "<U+2028><U+2029><U+0085>",
		"\ue000\ufdd0":                       "<U+E000><U+FDD0>",
		"bad\xff\xc3":                        "bad<0xFF><0xC3>",
		"\U00013441\U00016fe4\U0001d159":     "<U+13441><U+16FE4><U+1D159>",
		"real \ufffd":                        "real \ufffd",
	} {
		if got := cli.Visible(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestVisibleFlagsLookalikes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"p\u0430ypal":             "p\u0430ypal<! ",
		"https://p\u0430ypal.com": "this address is really",
	} {
		if got := cli.Visible(text); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q in it", text, got, want)
		}
	}
	for _, honest := range []string{"Привет, мир", "naïve café", "  indented\n  twice  ", "a    b"} {
		if got := cli.Visible(honest); got != honest {
			t.Errorf("%q: got %q", honest, got)
		}
	}
}
