package browsertest

import (
	"context"
	"net/http"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Become switches the page to another kind of browser, without reloading it.
func (p *Page) Become(o Options) {
	p.t.Helper()
	p.runActions("become another browser", o.emulationActions()...)
}

// emulationActions returns the actions that make a browser one of this kind.
func (o Options) emulationActions() []chromedp.Action[chromedp.Void] {
	if o.Width == 0 || o.Height == 0 {
		o.Width, o.Height = 1280, 800
	}
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	forced := "none"
	if o.Forced {
		forced = "active"
	}
	setup := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "forced-colors", Value: forced}},
		})
		if err != nil {
			return err
		}
		_, err = chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: o.NoScript})
		return err
	})
	size := chromedp.EmulateViewport(int64(o.Width), int64(o.Height))
	if o.Touch {
		size = chromedp.EmulateViewport(int64(o.Width), int64(o.Height), chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	if o.Zoom > 0 {
		size = chromedp.EmulateViewport(int64(o.Width), int64(o.Height), chromedp.EmulateScale(float64(o.Zoom)))
	}
	return []chromedp.Action[chromedp.Void]{setup, size}
}

// sendCommand sends one command of the DevTools protocol.
func sendCommand[P, R any](p *Page, description string, c cdp.Command[P, R], params P) {
	p.t.Helper()
	p.runActions(description, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, c, params)
		return err
	}))
}

// SetCookies replaces all cookies of the browser by cookies of an address, for example to change the signed-in person.
func (p *Page) SetCookies(address string, cookies []*http.Cookie) {
	p.t.Helper()
	sendCommand(p, "clear cookies", network.ClearBrowserCookies, cdp.Empty{})
	params := make([]*network.CookieParam, len(cookies))
	for i, c := range cookies {
		params[i] = &network.CookieParam{Name: c.Name, Value: c.Value, URL: address, HTTPOnly: true}
	}
	sendCommand(p, "set cookies", network.SetCookies, network.SetCookiesParams{Cookies: params})
}

// SetTimeZone sets the time zone of the browser.
func (p *Page) SetTimeZone(name string) {
	p.t.Helper()
	sendCommand(p, "set the time zone", emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
}

// Before runs a script in every later page, before the scripts of the page.
func (p *Page) Before(script string) {
	p.t.Helper()
	sendCommand(p, "prepare pages", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// SetOffline disconnects the browser from the network, including open streams, or connects it again.
func (p *Page) SetOffline(offline bool) {
	p.t.Helper()
	var conditions []*network.Conditions
	if offline {
		conditions = []*network.Conditions{{Offline: true, DownloadThroughput: -1, UploadThroughput: -1}}
	}
	sendCommand(p, "cut off the network", network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: conditions,
	})
}

// RecordRequests records the method and address of each later request of the page.
func (p *Page) RecordRequests() {
	p.t.Helper()
	sendCommand(p, "record requests", network.Enable, network.EnableParams{})
	err := chromedp.Listen(p.ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.requests = append(p.requests, sent.Request.Method+" "+sent.Request.URL)
		}
	})
	if err != nil {
		p.t.Fatalf("record requests: %v", err)
	}
}

// Requests returns the recorded requests.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// EvalAsync evaluates an expression that is a promise, and returns its result.
func EvalAsync[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %.200s: %v", expression, err)
	}
	return value
}

// Picture returns a screenshot of the window, as PNG.
func (p *Page) Picture() []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a picture: %v", err)
	}
	return picture
}
