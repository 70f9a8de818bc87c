package browsertest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// otherFonts makes a system use another text font.
const otherFonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd"><fontconfig>
	<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
	<match target="pattern"><edit name="family" mode="assign" binding="strong"><string>DejaVu Sans Mono</string></edit></match>
</fontconfig>`

// A page has the same width whatever fonts the system has.
func TestFontsAreNotTheSystems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fonts.conf")
	if err := os.WriteFile(file, []byte(otherFonts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FONTCONFIG_FILE", file)
	p := browsertest.New(t, browsertest.Options{})
	p.Go("data:text/html,<p>x")
	const width = `((font) => { const c = document.createElement("canvas").getContext("2d"); c.font = "40px " + font; return c.measureText("iiiiiiiiii").width; })`
	narrow, wide := browsertest.Eval[float64](p, width+`("system-ui, sans-serif")`), browsertest.Eval[float64](p, width+`("DejaVu Sans Mono, monospace")`)
	if narrow >= wide/2*1.5 {
		t.Errorf("ten letters of the system's font are %.0f px wide, of a fixed one %.0f: the page has the system's fonts", narrow, wide)
	}
}

// A click reaches an element that the page replaces again and again, and once.
func TestClickOnReplacedElement(t *testing.T) {
	p := browsertest.New(t, browsertest.Options{})
	p.Go("data:text/html,<main></main>")
	browsertest.Eval[bool](p, `(() => {
		globalThis.pressed = 0;
		document.querySelector("main").onmousedown = () => pressed++;
		setInterval(() => document.querySelector("main").innerHTML = "<button data-testid=b>b</button>");
		return true;
	})()`)
	const clicks = 20
	for range clicks {
		p.Click("b")
	}
	if pressed := browsertest.Eval[int](p, "pressed"); pressed != clicks {
		t.Errorf("%d clicks pressed %d times", clicks, pressed)
	}
}

// failed is a failed test.
type failed struct {
	testing.TB
	cleanups []func()
}

func (*failed) Failed() bool               { return true }
func (*failed) Name() string               { return "TestThat/failed here" }
func (f *failed) Cleanup(c func())         { f.cleanups = append(f.cleanups, c) }
func (f *failed) Context() context.Context { return context.WithoutCancel(f.TB.Context()) }

// The evidence that a failed test names still exists after the test.
func TestEvidenceStays(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("HOLDPOINT_ARTIFACTS", folder)
	t.Run("failing", func(t *testing.T) {
		f := &failed{TB: t}
		p := browsertest.New(f, browsertest.Options{})
		p.Go("data:text/html,<p>as it was")
		for _, c := range f.cleanups {
			c()
		}
	})
	for _, name := range []string{"failed.png", "failed.html"} {
		if info, err := os.Stat(filepath.Join(folder, "TestThat-failed_here", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
