package browsertest

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"
)

// Permit grants an origin a permission, as if the person had allowed it.
func (p *Page) Permit(origin, permission string) {
	p.t.Helper()
	p.runActions("permit "+permission, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: permission}, Setting: browser.PermissionSettingGranted, Origin: origin,
		})
		return err
	}))
}

// Push delivers a message to the service worker of an origin, like a push service.
func (p *Page) Push(origin string, message any) {
	p.t.Helper()
	text, err := json.Marshal(message)
	if err != nil {
		p.t.Fatalf("push: %v", err)
	}
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	err = chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		enable := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, serviceworker.Enable, cdp.Empty{})
			return err
		})
		var id serviceworker.RegistrationID
		of := func(e serviceworker.EventWorkerRegistrationUpdated) bool {
			for _, r := range e.Registrations {
				if !r.IsDeleted && strings.HasPrefix(r.ScopeURL, origin) {
					id = r.RegistrationID
				}
			}
			return id != ""
		}
		if _, err := chromedp.WaitEvent(serviceworker.WorkerRegistrationUpdated, of, enable)(ctx, t); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{
			Origin: origin, RegistrationID: id, Data: string(text),
		})
		if err != nil {
			return err
		}
		_, err = chromedp.Call(ctx, serviceworker.Disable, cdp.Empty{}) // enabling it again sends the event again
		return err
	}))
	if err != nil {
		p.t.Fatalf("push: %v", err)
	}
}
