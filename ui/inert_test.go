package ui_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// trap is the path that all injected markup requests.
const trap = "/trap"

// injected puts active markup into every field: htmx requests in all spellings, forms, a refresh, script links, images.
// In name fields it has the maximum length.
func injected(what, _ string) string {
	at := trap + "/" + strings.ReplaceAll(what, " ", "-")
	short := `"><i hx-get=` + at + ` hx-trigger=load><img src=` + at + `>`
	switch what {
	case "person", "scope", "team", "MIME", "key", "tool name", "model", "title", "machine", "problem":
		return short
	}
	return short + `'><button hx-post="` + at + `" hx-trigger="load, revealed, click, mouseover from:body, every 100ms" hx-target="#call">Approve</button>` +
		`<b data-hx-get="` + at + `" data-hx-trigger="load"></b><div hx-on:load="fetch('` + at + `')" hx-on::load="fetch('` + at + `')"></div>` +
		`<form action="` + at + `" method=post><button formaction="` + at + `">Approve</button></form>` +
		`<meta http-equiv="refresh" content="0;url=` + at + `"><base href="` + at + `/"><link rel=stylesheet href="` + at + `">` +
		`<a href="javascript:fetch('` + at + `')" ping="` + at + `">x</a><iframe src="` + at + `"></iframe><object data="` + at + `"></object>` +
		`<svg onload="fetch('` + at + `')"><script href="` + at + `"></script><use href="` + at + `#x"></use><image href="` + at + `"/></svg>` +
		`<script src="` + at + `"></script><script>fetch("` + at + `")</script><style>@import "` + at + `"; *{background:url(` + at + `)}</style>` +
		`<video src="` + at + `" autoplay></video><details open ontoggle="fetch('` + at + `')"></details><input autofocus onfocus="fetch('` + at + `')">` +
		`<template><hx-partial hx-target="#call"></hx-partial></template><!-- --!><plaintext>`
}

// inert lists active parts of a page that are not the dashboard's own.
const inert = `(() => {
	const found = [];
	const nonce = document.querySelector("[hx-nonce]")?.getAttribute("hx-nonce");
	for (const element of document.querySelectorAll("*")) {
		for (const {name, value} of element.attributes) {
			if (/^(data-)?hx-(?!nonce$|sync$)/.test(name) && element.getAttribute("hx-nonce") !== nonce) found.push("no nonce: " + element.outerHTML.slice(0, 120));
			if (name.startsWith("on") || name === "style" || name === "ping" || name === "srcdoc") found.push(name + ": " + element.outerHTML.slice(0, 120));
			if (!/^(href|src|action|formaction|(data-)?hx-(get|post|put|patch|delete))$/.test(name)) continue;
			const to = new URL(value, location.href);
			if (!/^https?:$/.test(to.protocol) || to.pathname.includes("trap")) found.push(name + "=" + value.slice(0, 120));
			if (to.origin !== location.origin && element.dataset.testid !== "continue") found.push("leads away: " + element.outerHTML.slice(0, 120));
		}
		if (/^(iframe|object|embed|base|style|video|audio|use|image|foreignobject|plaintext)$/i.test(element.localName)) found.push("<" + element.localName + ">");
		if (element.localName === "script" && !element.src) found.push("a script in the page");
		if (element.localName === "img" && !element.src.includes("/a/")) found.push("a picture of " + element.src);
	}
	return found;
})()`

// Injected markup becomes active on no page, whatever field it is in. It causes no request and no policy violation.
func TestNothingInjectedActs(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 0, injected)
	w := h.walker()
	w.page.Before(`addEventListener("securitypolicyviolation", e => (window.violated ??= []).push(e.violatedDirective + " " + e.blockedURI + " " + e.sample))`)
	w.page.RecordRequests()
	seen := 0
	asked := map[string]bool{}
	for _, s := range h.scenes() {
		w.enter(s)
		w.nothingActs(s.name)
		if violated := browsertest.Eval[[]string](w.page, "window.violated ?? []"); len(violated) > 0 {
			t.Errorf("%s: the policy was violated: %v", s.name, violated)
		}
		if strings.Contains(browsertest.Eval[string](w.page, "document.body.innerText"), trap) {
			seen++
		}
		if asked[s.route] || s.said {
			continue
		}
		// A link may carry anything in its address too.
		asked[s.route] = true
		path, _, _ := strings.Cut(s.path, "?")
		w.enter(scene{name: s.name, path: path + "?" + hostileQuery(), who: s.who})
		w.nothingActs(s.name + " with a query")
	}
	if seen < len(h.scenes())/2 {
		t.Errorf("only %d pages show any of what was injected", seen)
	}
	for _, request := range w.page.Requests() {
		method, address, _ := strings.Cut(request, " ")
		if strings.HasPrefix(address, "data:image/svg+xml;base64,") && method == "GET" {
			continue // the browser's own icon in a date field
		}
		if path, ours := strings.CutPrefix(address, h.server.URL); address != "about:blank" && (!ours || strings.Contains(path, trap) || method != "GET" && !h.posts(path)) {
			t.Errorf("a page asked for %s", request)
		}
	}
	for _, complaint := range w.page.Complaints() {
		if !strings.Contains(complaint, "the server responded with a status of 4") { // expected by the scene
			t.Errorf("a page complained: %s", complaint)
		}
	}
	// The check itself works: it finds a real injection.
	browsertest.Eval[bool](w.page, `(() => { const i = document.createElement("img"); i.src = "`+trap+`/found"; document.body.append(i); return true })()`)
	w.page.WaitFor("the picture to be asked for", `document.querySelector("img[src='`+trap+`/found']").complete`)
	if requests := strings.Join(w.page.Requests(), "\n"); !strings.Contains(requests, trap+"/found") {
		t.Error("a request for the trap would not be seen")
	}
	if found := browsertest.Eval[[]string](w.page, inert); len(found) == 0 {
		t.Error("an element of the trap would not be seen")
	}
}

// nothingActs fails the test if an active part of the page is not the dashboard's own. It moves the pointer and updates
// parts of the page to trigger handlers.
func (w *walker) nothingActs(name string) {
	w.house.t.Helper()
	for _, when := range []string{"as it comes", "after a while"} {
		for _, found := range browsertest.Eval[[]string](w.page, inert) {
			w.house.t.Errorf("%s, %s: %s", name, when, found)
		}
		browsertest.EvalAsync[bool](w.page, `(async () => {
			for (const e of document.querySelectorAll("main *")) e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
			const queue = document.querySelector("#queue");
			if (queue) { htmx.trigger(queue, "hp:refresh"); await new Promise(done => document.addEventListener("htmx:after:swap", done, {once: true})); }
			await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
			return true;
		})()`)
	}
}

// hostileQuery has markup for each query parameter that pages know, and for an unknown one.
func hostileQuery() string {
	query := url.Values{}
	for _, name := range []string{
		"q", "view", "full", "status", "before", "after", "agent", "skill", "tool", "person", "team", "from", "to", "range", "page", "next",
		"pause", "known", "token", "error", "connected", "name", "outcome", "text", "kind", "action", "entry", "hold", "x",
	} {
		query.Set(name, injected("person", ""))
	}
	return query.Encode()
}

// posts reports whether a scene itself posts to the path.
func (h *house) posts(path string) bool {
	for _, own := range []string{"/confirm", "/cancel", "/reveal", "/edit", "/seen", "/disconnect", "/connect", "/close", "/messages", "/sign-in", "/replay"} {
		if strings.HasSuffix(path, own) {
			return true
		}
	}
	return path == h.draft || path == h.wrongDraft || path == h.draft+"/try" // the import's choices so far, and a trial of it
}
