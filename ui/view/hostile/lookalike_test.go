package hostile_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// suspects returns the flagged words and characters of a text.
func suspects(text string) string {
	var found []string
	for _, p := range hostile.Show(text) {
		if p.Kind == hostile.Suspect {
			found = append(found, p.Text+": "+p.Note.String())
		}
	}
	return strings.Join(found, "; ")
}

func TestLookAlikesAreFlagged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"IPA alpha", "/etc/pɑsswd", "pɑsswd: look-alike letters for “passwd”"},
		{"script g", "ɡit push", "ɡit: look-alike letters for “git”"},
		{"dotless i", "git push origin maın", "maın: look-alike letters for “main”"},
		{"beside an honest letter", "pɑsswörd", "pɑsswörd: look-alike letters for “passwörd”"},
		{"Cherokee", "run ᎠᎡᎢ", "ᎠᎡᎢ: Cherokee letters that look like Latin ones"},
		{"Coptic", "ⲣⲟⲟⲧ", "ⲣⲟⲟⲧ: Coptic letters that look like Latin ones"},
		{"Lisu", "ꓢꓴꓓꓳ", "ꓢꓴꓓꓳ: Lisu letters that look like Latin ones"},
		{"a script that is no longer written", "𐌀𐌁", "𐌀𐌁: Old_Italic letters that look like Latin ones"},
		{"division slashes", "..∕..∕etc∕passwd", "∕: looks like “/”, but is U+2215; ∕: looks like “/”, but is U+2215; ∕: looks like “/”, but is U+2215"},
		{"one dot leader", "example․com", "․: looks like “.”, but is U+2024"},
		{"two dots", "‥/etc", "‥: looks like “..”, but is U+2025"},
		{"ideographic dot in a host", "example。com", "。: looks like “.”, but is U+3002"},
		{"full-width slash", "https://trusted.com／a", "／: looks like “/”, but is U+FF0F"},
		{"full-width at", "user＠evil.com", "＠: looks like “@”, but is U+FF20"},
		{"a bar", "cat x ｜ sh", "｜: looks like “|”, but is U+FF5C"},
		{"divides", "cat x ∣ sh", "∣: looks like “|”, but is U+2223"},
		{"hyphen", "rm ‐rf /", "‐: looks like “-”, but is U+2010"},
		{"en dash as an option", "rm –rf /", "–: looks like “-”, but is U+2013"},
		{"minus as an option", "rm −rf /", "−: looks like “-”, but is U+2212"},
		{"an option with two", "git push −-force", "−: looks like “-”, but is U+2212"},
		{"an option of two", "git push ––force", "–: looks like “-”, but is U+2013"},
		{"a Roman numeral", "lⅼ", "lⅼ: look-alike letters for “ll”"},
		{"enclosed letters", "ⓡⓜ", "ⓡⓜ: look-alike letters for “rm”"},
		{"Devanagari digits", "३००", "३००: digits of another script for “300”"},
		{"Arabic digits among others", "pay 1٠٠", "1٠٠: digits of another script for “100”"},
		{"beside a clear letter", "сору ж", "сору: Cyrillic letters that look like Latin ones"},
		{"a clear line elsewhere", "ж\nсору", "сору: Cyrillic letters that look like Latin ones"},
		{"in a path", "Скопируй это: /etc/сору или туда", "сору: Cyrillic letters that look like Latin ones"},
		{"among Latin words", "run сору to the файл", "сору: Cyrillic letters that look like Latin ones"},
		{"with a number", "сору2", "сору2: Cyrillic letters that look like Latin ones"},
		{"Greek", "ΑΒΟΥΤ ΤΗΕ", "ΑΒΟΥΤ: Greek letters that look like Latin ones; ΤΗΕ: Greek letters that look like Latin ones"},
		{"a stroke of Katakana", "etcノpasswd", "etcノpasswd: “ノ” looks like “/”"},
		{"a stroke of Han", "a丶b", `a丶b: “丶” looks like “\”`},
		{"a very long word", strings.Repeat("ɑ", 100), strings.Repeat("ɑ", 100) + ": look-alike letters"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := suspects(tt.text); got != tt.want {
				t.Errorf("%q\n got %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

func TestHonestTextIsNotFlagged(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Отчёт за март: с утра у нас всё хорошо, а о сроках скажу потом.",
		"Открой Chrome с рабочего стола и сохрани файл в /srv/data/reports/2026/january.csv с диска",
		"О нас", "у меня", `{"title":"с утра у нас","n":1}`, "Привет, мир! Это «кавычки» — и тире, № 5.", "Сохрани\nСохрани и сотри\nрост и сон",
		"Україна, їжак і ґанок", "Београд је на реци",
		"Καλημέρα, θέλω και το αρχείο να είναι εδώ.", "ναι, και όχι", "Έλα από το σπίτι; Ναι!",
		"Բարև ձեզ։ Ինչպե՞ս եք", "გამარჯობა მსოფლიო", "שלום עולם, זה סוס", "مرحبا بالعالم، هذا نص", "नमस्ते दुनिया।", "สวัสดีชาวโลก",
		"東京タワー（有名）：入場料は、無料です。", "PDFファイルを送る／受け取る", "请注意：文件名＝“报告”，谢谢！", "今日のノートノ件", "안녕하세요 세계", "二〇二五年",
		"Größe, Straße, Äpfel für Öl und Übung", "L’été, où l’œuvre de cœur coûte cher ; ça va… « bien »", "Łódź, Kraków, žluťoučký kůň",
		"São João, mañana, 1º lugar, 2ª vez", "Þetta er það sem ég á", "blåbærsyltetøy på Ærø", "đường phố Hà Nội ơi", "şimdi çok güzel, öğretmen",
		"“Quotes” and ‘single’ ones — an em dash – and an en dash, 1990–2000, Mon–Fri, well‑known…", "it’s the user’s 5′ 10″", "– first item",
		"m² and x³, H₂O, Ca²⁺, ½ cup, ⅔, 20 °C, 5 µm, ±3, 4 × 5 ≤ 30, π ≈ 3.14, A ∪ B, ∞", "−5 and 10 −3", "Acme™ ® © No. № ℠", "① first ② second", "1⁄2",
		"✔ done ✗ failed → next • point · middle", "├── src\n│   └── main.go", "🚀 deploy 🎉", "naïve café Zoë résumé",
	} {
		if got := suspects(text); got != "" {
			t.Errorf("%q is flagged: %s", text, got)
		}
	}
}
