package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
)

// shared is the browser of all tests of a process. A browser takes two seconds of processor time to start, a page almost none.
var shared struct { //nolint:gochecknoglobals // package testing has no other place for the state of a process
	sync.Mutex

	on  bool
	ctx context.Context // of the running browser
	end func() error
}

// Tests are those of a package, a [testing.M].
type Tests interface{ Run() int }

// Share returns tests that share one browser, with a separate profile for each page. TestMain runs them.
func Share(tests Tests) Tests { return sharing{tests} }

type sharing struct{ tests Tests }

// Run implements [Tests].
func (s sharing) Run() int {
	shared.Lock()
	shared.on = true
	shared.Unlock()
	code := s.tests.Run()
	shared.Lock()
	defer shared.Unlock()
	shared.on = false
	if shared.ctx == nil {
		return code
	}
	if err := shared.end(); err != nil {
		fmt.Fprintln(os.Stderr, "close the shared browser:", err)
	}
	shared.ctx, shared.end = nil, nil //nolint:fatcontext // not nested
	return code
}

// openTab opens a tab of the shared browser, or of a new one.
func openTab(o Options) (ctx context.Context, end func() error, err error) {
	browser, err := useShared(o)
	if browser == nil && err == nil {
		return startBrowser(o)
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	return ctx, func() error {
		ending, stop := context.WithTimeout(ctx, closeLimit)
		defer stop()
		defer cancel()
		return chromedp.Cancel(ending)
	}, nil
}

// useShared returns the shared browser, or nil if the tests do not share one. It starts the browser if it does not run.
func useShared(o Options) (context.Context, error) {
	shared.Lock()
	defer shared.Unlock()
	if !shared.on || o.Whole {
		return nil, nil //nolint:nilnil // no browser is shared
	}
	if shared.ctx != nil && shared.ctx.Err() == nil {
		return shared.ctx, nil
	}
	ctx, end, err := startBrowser(Options{})
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(startLimit, func() { _ = chromedp.Cancel(ctx) })
	defer late.Stop()
	if err := chromedp.Do(ctx); err != nil {
		return nil, errors.Join(err, end())
	}
	shared.ctx, shared.end = ctx, end //nolint:fatcontext // the only one
	return ctx, nil
}

// startBrowser prepares a browser, which the first action starts.
func startBrowser(o Options) (ctx context.Context, end func() error, err error) {
	profile, err := os.MkdirTemp("", "holdpoint-browser-")
	if err != nil {
		return nil, nil, err
	}
	flags, err := browserFlags(profile, o)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(profile))
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), flags...)
	ctx, cancel := chromedp.NewContext(allocator)
	return ctx, func() error {
		ending, stop := context.WithTimeout(ctx, closeLimit)
		_ = chromedp.Cancel(ending) // the next lines end it in any case
		stop()
		cancel()
		release()
		return removeProfile(profile)
	}, nil
}

func browserFlags(profile string, o Options) ([]chromedp.ExecAllocatorOption, error) {
	path, err := findBrowser(o.Whole)
	if err != nil {
		return nil, err
	}
	fonts, err := writeFontConfig(profile)
	if err != nil {
		return nil, err
	}
	o = o.withSize()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.DisableGPU,
		chromedp.WindowSize(o.Width, o.Height), chromedp.WSURLReadTimeout(startLimit),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("lang", "en-US"), chromedp.Env("FONTCONFIG_FILE="+fonts),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	return options, nil
}

// findBrowser returns the browser of this machine. The headless shell is preferred: it takes half the processor time.
func findBrowser(whole bool) (string, error) {
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil && !whole {
		return path, nil
	}
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("none found: install chromium")
}

// removeProfile retries while processes of the browser still write.
func removeProfile(dir string) error {
	deadline := time.After(closeLimit)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := os.RemoveAll(dir)
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return fmt.Errorf("remove its profile: %w", err)
		case <-ticker.C:
		}
	}
}
