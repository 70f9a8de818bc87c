package browsertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
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

// Page is a tab with cookies, storage and a window of its own.
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
	ctx, end, err := openTab(o)
	if err != nil {
		t.Fatalf("open a browser: %v", err)
	}
	p := &Page{t: t, ctx: ctx}
	t.Cleanup(func() {
		p.keepEvidence()
		if err := end(); err != nil {
			t.Logf("close the browser: %v", err)
		}
	})
	late := time.AfterFunc(startLimit, func() { _ = chromedp.Cancel(ctx) }) // a timeout of the context would limit the browser's life
	defer late.Stop()
	p.runActions("open a browser", o.emulationActions()...)
	sendCommand(p, "focus the page", emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
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

func byTestID(id string) string { return fmt.Sprintf("[data-testid=%q]", id) }
