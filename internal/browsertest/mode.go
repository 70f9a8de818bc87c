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

// Become makes the page that of another kind of browser, without loading it again.
func (p *Page) Become(o Options) {
	p.t.Helper()
	p.do("become another browser", o.emulation()...)
}

// emulation is what makes a browser one of this kind.
func (o Options) emulation() []chromedp.Action[chromedp.Void] {
	if o.Width == 0 || o.Height == 0 {
		o.Width, o.Height = 1280, 800
	}
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	setup := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
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
	return []chromedp.Action[chromedp.Void]{setup, size}
}

// command sends one command of the DevTools protocol.
func command[P, R any](p *Page, what string, c cdp.Command[P, R], params P) {
	p.t.Helper()
	p.do(what, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, c, params)
		return err
	}))
}

// SetCookies replaces all cookies of the browser by those of an address: who is signed in changes with them.
func (p *Page) SetCookies(address string, cookies []*http.Cookie) {
	p.t.Helper()
	command(p, "clear cookies", network.ClearBrowserCookies, cdp.Empty{})
	params := make([]*network.CookieParam, len(cookies))
	for i, c := range cookies {
		params[i] = &network.CookieParam{Name: c.Name, Value: c.Value, URL: address, HTTPOnly: true}
	}
	command(p, "set cookies", network.SetCookies, network.SetCookiesParams{Cookies: params})
}

// SetTimeZone says where the browser is.
func (p *Page) SetTimeZone(name string) {
	p.t.Helper()
	command(p, "set the time zone", emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
}

// Before runs a script in every page to come, before anything of the page does.
func (p *Page) Before(script string) {
	p.t.Helper()
	command(p, "prepare pages", page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// SetOffline cuts the browser off from the network, streams that are open included, or brings it back.
func (p *Page) SetOffline(offline bool) {
	p.t.Helper()
	var conditions []*network.Conditions
	if offline {
		conditions = []*network.Conditions{{Offline: true, DownloadThroughput: -1, UploadThroughput: -1}}
	}
	command(p, "cut off the network", network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: conditions,
	})
}

// RecordRequests collects the address of everything that the page asks for from now on.
func (p *Page) RecordRequests() {
	p.t.Helper()
	command(p, "record requests", network.Enable, network.EnableParams{})
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

// Requests are the methods and addresses of what was recorded.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// EvalAsync evaluates an expression that is a promise, and waits for what it promises.
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

// Picture is what the window shows, as PNG.
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
