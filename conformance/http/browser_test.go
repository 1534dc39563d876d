//go:build linux

package http

import (
	"agent9/conformance/daemon"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A tab is a page of a real Chromium, which collects what the console says is
// wrong.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string
}

// newBrowser starts a Chromium that ends with the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes long")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on this machine")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(filepath.Join(t.TempDir(), "chromium")), chromedp.WSURLReadTimeout(daemon.Limit))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		ending, stop := context.WithTimeout(ctx, daemon.Limit)
		defer stop()
		chromedp.Cancel(ending)
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// newTab opens a tab of its own, which shares nothing with others, and whose
// window has the size.
func newTab(t *testing.T, browser context.Context, width, height int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx}
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as ctx
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, p.heard); err != nil {
		t.Fatal(err)
	}
	p.size(width, height)
	return p
}

// size makes the window so large; a small one is a phone's.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.run(chromedp.EmulateViewport(width, height, func(m *emulation.SetDeviceMetricsOverrideParams, _ *emulation.SetTouchEmulationEnabledParams) {
		m.Mobile = width < 500
	}))
}

// heard takes note of what the console says is wrong.
func (p *tab) heard(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.note((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.note(fmt.Sprintf("console.%s", e.Type))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.note(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		p.note("dialog: " + e.Message)
	}
}

func (p *tab) note(wrong string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, wrong)
}

// noted returns what the console said was wrong, and forgets it.
func (p *tab) noted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrong := p.wrong
	p.wrong = nil
	return wrong
}

// clean says that the console found nothing wrong.
func (p *tab) clean() {
	p.t.Helper()
	if wrong := p.noted(); len(wrong) > 0 {
		p.t.Errorf("the browser's console:\n%s", strings.Join(wrong, "\n"))
	}
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, daemon.Limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns what an expression is in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, daemon.Limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until a condition holds in the page.
func (p *tab) until(condition string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, daemon.Limit)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](`new Promise((done) => {
		const holds = () => { try { return `+condition+` } catch { return false } };
		if (holds()) return done(true);
		const watch = new MutationObserver(() => { if (holds()) { watch.disconnect(); done(true) } });
		watch.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		again, cancel := context.WithTimeout(p.ctx, daemon.Limit)
		defer cancel()
		shown, _ := chromedp.Run(again, chromedp.Evaluate[string](`location.hash + "\n" + document.body.innerText`))
		p.t.Fatalf("%v until %s; the page shows\n%s\nconsole: %q", err, condition, shown, p.noted())
	}
}

// shows waits until a text can be read in what a selector finds.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))", selector, text))
}

// open loads the page of a daemon.
func (p *tab) open(url string) {
	p.t.Helper()
	p.run(chromedp.Navigate(url))
	p.until(`document.activeElement.id === "token"`)
}

// logIn gives the token to the page.
func (p *tab) logIn(url, token string) {
	p.t.Helper()
	p.open(url)
	p.keys(token, kb.Enter)
	p.until(`document.querySelector("#head nav, #head [aria-current], .view .pane")`)
}

// goTo shows another view.
func (p *tab) goTo(hash string) {
	p.t.Helper()
	p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", hash)))
}

// keys types.
func (p *tab) keys(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.run(chromedp.KeyEvent(k))
	}
}

func (p *tab) shiftTab() {
	p.t.Helper()
	p.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
}

// click clicks on what a selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.querySelector(%q)", selector))
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// shoot takes a picture, if AGENT9_SCREENSHOTS says where to.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("AGENT9_SCREENSHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, daemon.Limit)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// dark shows the page as for who prefers dark ones.
func (p *tab) dark() {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// settles waits, for what must not happen meanwhile, until the page has drawn
// itself and its tasks are done.
func (p *tab) settles() {
	p.t.Helper()
	eval[bool](p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true)))))`)
}
