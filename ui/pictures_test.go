package ui_test

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// pictures is the directory for the documentation's pictures: `task screenshots`.
var pictures = flag.String("pictures", "", "make the documentation's pictures in this `directory`")

// pictured lists the scenes in the documentation, in any order.
func pictured() []string {
	return []string{
		"queue", "queue-call", "queue-empty", "call-parked", "call-destructive", "call-confirm", "call-changed", "call-suspicious", "call-secret",
		"call-edit", "call-edit-preview", "call-request", "call-done", "call-unknown", "call-expired", "call-needs-connection", "calls-like", "calls",
		"conversations", "conversation", "talk-draft", "talk-waiting", "talk-hostile", "talk-looked-at", "talk-new", "call-led", "insights", "insights-tools", "audit",
		"skills", "skill", "skill-edit", "skill-tool", "rules", "rule", "rule-edit", "policies", "policy", "policy-edit", "call-votes", "call-glass", "call-shell", "call-file-edit", "guards",
		"grants", "grant", "grant-new", "grant-suggestions", "changes", "change", "teams", "import-new", "import-operations", "import-credentials", "import-tried", "connections", "connection", "agents", "agent", "agent-edit", "agent-assign",
		"members", "member", "settings", "sign-in", "keys",
	}
}

// onADay is the time of the pictures. The clocks stand still, and varying ids and ports are replaced. It is in the future, because sessions
// that began long ago have expired.
func onADay() time.Time {
	day := time.Date(2026, time.November, 17, 9, 41, 0, 0, time.UTC)
	for day.Before(time.Now()) {
		day = day.AddDate(0, 0, 52*7)
	}
	return day
}

// still stops a page's clock and its updates.
const still = `(() => {
	const moment = Date.now();
	Date.now = () => moment;
	window.EventSource = class { addEventListener() {} close() {} };
})()`

// settledText replaces random text, so that pictures are reproducible.
const settledText = `(() => {
	const known = new Map();
	const stable = (found, make) => known.get(found) ?? known.set(found, make(known.size + 1)).get(found);
	for (const time of document.querySelectorAll("time")) {
		time.textContent = time.textContent.replace(/(\d+):(\d\d):\d\d/, (_, h, m) => h + ":" + m + ":" + String(m * 37 % 60).padStart(2, "0"));
	}
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode()); ) {
		node.data = node.data
			.replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, id => stable(id, n => "019a9048-7c52-7e14-b8d1-" + (0x5f2a61c40000 + n * 0x9e37).toString(16)))
			.replace(/…[0-9a-f]{8}\b/g, id => stable(id, n => "…" + (0x61c40000 + n * 0x9e37).toString(16)))
			.replace(/(fingerprint |^)[0-9a-f]{12}…/, (_, before) => before + "8f9c81eccca1…")
			.replace(/^hpp_\w{4}…/, "hpp_5bvf…")
			.replace(/^[0-9a-f]{6}$/, id => stable(id, n => (0x61c4 + n * 0x9e37).toString(16).padStart(6, "0")))
			.replace(/(localhost|127\.0\.0\.1):\d+/g, "drive.alder-finch.example");
	}
	for (const field of document.querySelectorAll("input")) {
		if (field.type !== "file") field.value = field.value.replace(/(localhost|127\.0\.0\.1):\d+/g, "drive.alder-finch.example");
	}
	document.activeElement?.blur();
	return true;
})()`

// settledGate is true once the note on the button that approves stands for a second: by then, what is on the screen counts as seen.
const settledGate = `(() => {
	const note = document.querySelector("#call [data-gate] small")?.textContent;
	if (window.note !== note) [window.note, window.noted] = [note, performance.now()];
	return note === undefined || performance.now() - window.noted > 1000;
})()`

func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("nothing is tested here: `task screenshots` makes the documentation's pictures")
	}
	check(t, os.MkdirAll(*pictures, 0o750))
	h, empty := newHouse(t, time.Until(onADay()), asUsual), emptyHouse(t)
	h.busyWeek()
	w := h.walker()
	w.page.Before(still)
	wanted := map[string]bool{}
	for _, name := range pictured() {
		wanted[name] = true
	}
	w.picture(h.scenes(), wanted)
	w.move(empty)
	w.picture(empty.emptyScenes(), wanted)
	for name := range wanted {
		t.Errorf("no scene is called %s", name)
	}
}

// busyWeek adds calls on previous days, so that charts have data.
func (h *house) busyWeek() {
	h.t.Helper()
	chance := rand.New(rand.NewPCG(3, 14)) // the same in each run
	tools := [][2]string{{"ledger", "post_payment"}, {"mail", "send_message"}, {"files", "save_csv"}, {"servers", "restart_service"}, {"ledger", "list_invoices"}}
	for day := 6; day >= 2; day-- {
		for range 18 + chance.IntN(20) {
			at := onADay().Truncate(24*time.Hour).AddDate(0, 0, -day).Add(7*time.Hour + time.Duration(chance.IntN(11*60))*time.Minute)
			h.agent = h.agents[[]string{"invoices", "support", "site-ops"}[chance.IntN(3)]]
			called, seen := tools[chance.IntN(len(tools))], chance.IntN(60)
			status, failure, outcome, by, ended := "succeeded", "", "approved", h.people["jonas"], seen+4+chance.IntN(50)
			switch n := chance.IntN(20); {
			case n < 8:
				outcome = ""
			case n == 8:
				status, failure = "failed", "tool_error"
			case n == 9:
				status, failure = "failed", "transport"
			case n < 13:
				status, outcome = "rejected", "rejected"
			case n == 13:
				status, outcome, by, ended = "expired", "expired", uuid.Nil, 1800
			}
			h.madeCall(at.Format(time.RFC3339), called[0], called[1], status, failure, outcome, by, seen, ended)
		}
	}
	h.db.Exec(`DELETE FROM call_stragglers`)
	h.db.Exec(`DELETE FROM call_counts`)
	h.db.Exec(`DELETE FROM call_counting`)
}

// picture takes the wanted scenes, and removes them from the list.
func (w *walker) picture(scenes []scene, wanted map[string]bool) {
	t := w.house.t
	t.Helper()
	for _, s := range scenes {
		if !wanted[s.name] {
			continue
		}
		delete(wanted, s.name)
		for _, look := range looks() {
			w.page.Become(look.options)
			w.enter(s)
			w.become(look)
			w.page.WaitFor("the button to say what was seen", settledGate)
			browsertest.Eval[bool](w.page, settledText)
			small, err := smaller(w.page.Picture())
			check(t, err)
			check(t, os.WriteFile(filepath.Join(*pictures, s.name+"-"+look.name+".png"), small, 0o600))
			if limit := 120 << 10; len(small) > limit {
				t.Errorf("%s, %s: %d bytes, at most %d", s.name, look.name, len(small), limit)
			}
		}
	}
}

// smaller reduces a picture to at most 256 colors, which looks the same.
func smaller(picture []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	counts := map[color.RGBA]int{}
	full := image.NewRGBA(decoded.Bounds())
	draw.Draw(full, full.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
	for i := 0; i < len(full.Pix); i += 4 {
		counts[color.RGBA{full.Pix[i], full.Pix[i+1], full.Pix[i+2], full.Pix[i+3]}]++
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	palette := choosePalette(frequent)
	few := image.NewPaletted(full.Bounds(), palette)
	index := map[color.RGBA]uint8{}
	for i := range few.Pix {
		c := color.RGBA{full.Pix[4*i], full.Pix[4*i+1], full.Pix[4*i+2], full.Pix[4*i+3]}
		at, ok := index[c]
		if !ok {
			at = uint8(palette.Index(c))
			index[c] = at
		}
		few.Pix[i] = at
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, few)
	return out.Bytes(), err
}

// choosePalette chooses at most 256 of the colors, the most frequent first. It leaves out colors that are near a chosen one, and not rare
// ones, such as that of a small badge.
func choosePalette(frequent []color.RGBA) color.Palette {
	for near := 0; ; near++ {
		var palette color.Palette
		for _, c := range frequent {
			if !slices.ContainsFunc(palette, func(one color.Color) bool { return isNear(one.(color.RGBA), c, near) }) {
				palette = append(palette, c)
			}
			if len(palette) > 256 {
				break
			}
		}
		if len(palette) <= 256 {
			return palette
		}
	}
}

// isNear reports whether two colors differ by at most so much in each channel.
func isNear(a, b color.RGBA, most int) bool {
	differ := func(a, b uint8) bool { return max(a, b)-min(a, b) > uint8(most) }
	return !differ(a.R, b.R) && !differ(a.G, b.G) && !differ(a.B, b.B)
}
