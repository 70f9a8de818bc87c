package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Wait waits until an element with this data-testid is visible.
func (p *Page) Wait(testID string) {
	p.t.Helper()
	p.WaitFor("see "+testID, visibleExpression(byTestID(testID)))
}

// WaitGone waits until no element with this data-testid is visible.
func (p *Page) WaitGone(testID string) {
	p.t.Helper()
	p.WaitFor("see "+testID+" no more", "!("+visibleExpression(byTestID(testID))+")")
}

// WaitText waits until an element with this data-testid contains a text.
func (p *Page) WaitText(testID, text string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("see %q in %s", text, testID), fmt.Sprintf(
		`[...document.querySelectorAll(%s)].some(e => e.innerText.includes(%s))`, quoteJS(byTestID(testID)), quoteJS(text)))
}

// WaitAnnounced waits until screen readers hear a text from the page's live region. A modal dialog silences a region outside it.
func (p *Page) WaitAnnounced(text string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("hear %q", text), fmt.Sprintf(`(region => region.textContent.includes(%s) &&
		(!document.querySelector("dialog:modal") || region.closest("dialog:modal")))(document.querySelector("#announce[role=status]"))`, quoteJS(text)))
}

// WaitFor waits until the document is parsed and a JavaScript expression is true, across navigations. It works even if the page's own
// JavaScript is off.
func (p *Page) WaitFor(description, expression string) {
	p.t.Helper()
	p.waitFor(description, `document.readyState !== "loading" && Boolean(`+expression+`)`)
}

// WaitForAsync is WaitFor with an expression that may await promises.
func (p *Page) WaitForAsync(description, expression string) {
	p.t.Helper()
	p.waitFor(description, "(async () => Boolean("+expression+"))()", chromedp.EvalAwaitPromise)
}

func (p *Page) waitFor(description, expression string, options ...chromedp.EvaluateOption) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last error
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression, options...))
		if ok && err == nil {
			return
		}
		if err != nil && ctx.Err() == nil {
			last = err // during a navigation
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("%s: not within %s (last error: %v)", description, waitLimit, last)
		case <-ticker.C:
		}
	}
}

func visibleExpression(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].some(e => e.checkVisibility() && e.getClientRects().length > 0)`, quoteJS(selector))
}

func quoteJS(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string can be encoded
	}
	return string(quoted)
}

// Click clicks the middle of the element with this data-testid.
func (p *Page) Click(testID string) {
	p.t.Helper()
	p.ClickOn(byTestID(testID))
}

// ClickOn clicks the first element of a CSS selector.
func (p *Page) ClickOn(selector string) {
	p.t.Helper()
	p.actAt("click "+selector, selector, chromedp.Click(chromedp.CSS(selector)))
}

// Tap taps the element with this data-testid, like a finger.
func (p *Page) Tap(testID string) {
	p.t.Helper()
	p.TapOn(byTestID(testID))
}

// TapOn taps the first element of a CSS selector.
func (p *Page) TapOn(selector string) {
	p.t.Helper()
	p.actAt("tap "+selector, selector, chromedp.Tap(chromedp.CSS(selector)))
}

// actAt runs an action at an element that is visible and does not move. It tries again if the page replaces the element meanwhile.
func (p *Page) actAt(description, selector string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	still := fmt.Sprintf(`((place) => place === globalThis.placeBefore || (globalThis.placeBefore = place, false))(
		JSON.stringify(document.querySelector(%s)?.getBoundingClientRect() ?? null))`, quoteJS(selector))
	for {
		p.WaitFor("the page", "delete globalThis.placeBefore")
		p.WaitFor("see "+selector, visibleExpression(selector)+" && "+still)
		err := chromedp.Do(ctx, action)
		if err == nil {
			return
		}
		if replaced := (*cdproto.Error)(nil); ctx.Err() != nil || !errors.As(err, &replaced) && !errors.Is(err, chromedp.ErrInvalidDimensions) {
			p.t.Fatalf("%s: %v", description, err)
		}
	}
}

// Type types into the element with this data-testid.
func (p *Page) Type(testID, text string) {
	p.t.Helper()
	p.actAt("type into "+testID, byTestID(testID), chromedp.SendKeys(chromedp.CSS(byTestID(testID)), text))
}

// Press presses keys, one after the other, where the focus is. As on a keyboard, a key writes its letter unless the page
// prevents it.
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.runActions("press "+keys, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, r := range keys {
			events := kb.Encode(r) // down, perhaps the letter, up
			down, up := *events[0], *events[len(events)-1]
			if len(events) > 2 {
				down.Type, down.Text, down.UnmodifiedText = kb.KeyDown, events[1].Text, events[1].UnmodifiedText
			}
			for _, event := range []input.DispatchKeyEventParams{down, up} {
				if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, event); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// PressCtrlK presses Ctrl+K.
func (p *Page) PressCtrlK() {
	p.t.Helper()
	p.runActions("press Ctrl+K", chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// PressCtrlEnter presses Ctrl+Enter.
func (p *Page) PressCtrlEnter() {
	p.t.Helper()
	p.runActions("press Ctrl+Enter", chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// Text returns the visible text of the first element with this data-testid.
func (p *Page) Text(testID string) string {
	p.t.Helper()
	return Eval[string](p, fmt.Sprintf(`document.querySelector(%s)?.innerText ?? ""`, quoteJS(byTestID(testID))))
}

// Count returns the number of elements with this data-testid.
func (p *Page) Count(testID string) int {
	p.t.Helper()
	return Eval[int](p, fmt.Sprintf(`document.querySelectorAll(%s).length`, quoteJS(byTestID(testID))))
}

// Path returns the path and query of the page's address.
func (p *Page) Path() string {
	p.t.Helper()
	return Eval[string](p, "location.pathname + location.search")
}

// Eval evaluates a JavaScript expression in the page.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// Screenshot keeps a picture of the window if HOLDPOINT_ARTIFACTS is set. A failed test keeps one anyway.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	if os.Getenv("HOLDPOINT_ARTIFACTS") != "" {
		p.keepFile(name+".png", p.Picture())
	}
}

// keepEvidence keeps a picture and the HTML of the page if the test failed.
func (p *Page) keepEvidence() {
	if !p.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, closeLimit)
	defer cancel()
	if picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot()); err == nil {
		p.keepFile("failed.png", picture)
	}
	if html, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.documentElement.outerHTML")); err == nil {
		p.keepFile("failed.html", []byte(html))
	}
	if complaints := p.Complaints(); len(complaints) > 0 {
		p.t.Logf("the page complained:\n%s", strings.Join(complaints, "\n"))
	}
}

func (p *Page) keepFile(name string, content []byte) {
	folder := filepath.Join(artifactsFolder(), strings.NewReplacer("/", "-", " ", "_").Replace(p.t.Name()))
	file := filepath.Join(folder, name)
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		p.t.Logf("keep %s: %v", name, err)
		return
	}
	p.t.Logf("kept %s", file)
}

// artifactsFolder is the folder of files that stay after the test.
func artifactsFolder() string {
	if folder := os.Getenv("HOLDPOINT_ARTIFACTS"); folder != "" {
		return folder
	}
	folder, err := filepath.Abs("artifacts")
	if err != nil {
		return "artifacts"
	}
	return folder
}
