package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
)

// Options are the kind of browser of a page. The zero value is a desktop browser in light colors.
type Options struct {
	Width, Height int  // of the window; zero: 1280 by 800
	Dark          bool // prefers-color-scheme: dark
	Forced        bool // forced-colors: active
	Zoom          int  // device pixels for one of CSS; zero: 1
	NoScript      bool // JavaScript is off
	Touch         bool // a phone: no pointer hovers
	Whole         bool // needs what the headless shell lacks, such as push messages
}

// Phone returns the options of a small phone.
func Phone() Options { return Options{Width: 390, Height: 844, Touch: true} }

// Limits end a test that hangs. They are generous, for machines under heavy load.
const (
	startLimit = 5 * time.Minute
	waitLimit  = 5 * time.Minute
	closeLimit = time.Minute
	pollEvery  = 20 * time.Millisecond
)

// T is the part of [testing.TB] that a page needs. Fatalf must not return.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(f func())
	Context() context.Context
	Name() string
}

// Page is the only tab of a browser.
type Page struct {
	t   T
	ctx context.Context

	mu       sync.Mutex
	messages []string
	requests []string
}

// New opens an empty page. It is closed when the test ends.
func New(t T, o Options) *Page {
	t.Helper()
	if o.Width == 0 || o.Height == 0 {
		o.Width, o.Height = 1280, 800
	}
	profile, err := os.MkdirTemp("", "holdpoint-browser-")
	if err != nil {
		t.Fatalf("open a browser: %v", err)
	}
	allocator, release := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), browserFlags(t, profile, o)...)
	ctx, cancel := chromedp.NewContext(allocator)
	p := &Page{t: t, ctx: ctx}
	t.Cleanup(func() {
		p.keepEvidence()
		ending, stop := context.WithTimeout(ctx, closeLimit)
		_ = chromedp.Cancel(ending) // the next lines end it in any case
		stop()
		cancel()
		release()
		removeProfile(t, profile)
	})
	late := time.AfterFunc(startLimit, func() { _ = chromedp.Cancel(ctx) }) // a timeout of the context would limit the browser's life
	defer late.Stop()
	p.runActions("open a browser", o.emulationActions()...)
	console := chromedp.Console(ctx)
	go func() {
		for message, err := range console {
			if err != nil {
				return
			}
			if message.IsException() || message.Type == "error" {
				p.mu.Lock()
				p.messages = append(p.messages, message.Text)
				p.mu.Unlock()
			}
		}
	}()
	return p
}

func browserFlags(t T, profile string, o Options) []chromedp.ExecAllocatorOption {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(findBrowser(t, o.Whole)), chromedp.UserDataDir(profile), chromedp.DisableGPU,
		chromedp.WindowSize(o.Width, o.Height), chromedp.WSURLReadTimeout(startLimit),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("lang", "en-US"), chromedp.Env("FONTCONFIG_FILE="+writeFontConfig(t, profile)),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	return options
}

// findBrowser returns the browser of this machine. The headless shell is preferred: it takes half the processor time.
func findBrowser(t T, whole bool) string {
	t.Helper()
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil && !whole {
		return path
	}
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("open a browser: none found: install chromium")
	return ""
}

// Complaints returns the errors on the page's console, including violations of its Content-Security-Policy.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.messages...)
}

func (p *Page) runActions(description string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", description, err)
	}
}

// Go opens an address and waits until its page is loaded.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.runActions("go to "+url, chromedp.Navigate(url))
}

// Back goes back in the history.
func (p *Page) Back() {
	p.t.Helper()
	p.runActions("go back", chromedp.NavigateBack())
}

// removeProfile retries while processes of the browser still write.
func removeProfile(t T, dir string) {
	t.Helper()
	deadline := time.After(closeLimit)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := os.RemoveAll(dir)
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Logf("remove the browser's profile: %v", err)
			return
		case <-ticker.C:
		}
	}
}

func byTestID(id string) string { return fmt.Sprintf("[data-testid=%q]", id) }
