package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestAgentCallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var says atomic.Int32
	says.Store(http.StatusOK)
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(says.Load())) }))
	defer other.Close()
	agentPath := "/agents/" + w.agent.ID.String()
	path := agentPath + "/callbacks"
	olga := w.signedIn("olga", identity.Operator)
	form := url.Values{"name": {"ops"}, "url": {"http://ops.example/hushhush"}}
	bad := olga.post(path, form)
	if bad.status != http.StatusUnprocessableEntity || !strings.Contains(bad.find("wrong-url").Text(), "use https") ||
		strings.Contains(bad.body, "hushhush") || bad.find("hook-name").AttrOr("value", "") != "ops" {
		t.Errorf("%d %s", bad.status, bad.body)
	}
	form.Set("url", other.URL+"/hushhush")
	made := olga.post(path, form)
	first := strings.TrimSpace(made.find("secret-itself").Text())
	if made.status != http.StatusOK || made.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(first, "whsec_") || strings.Contains(made.body, "hushhush") {
		t.Fatalf("%d, %q", made.status, first)
	}
	if row := olga.get(agentPath).find("callback"); row.Length() != 1 || !strings.Contains(row.Text(), "Not tried yet") {
		t.Errorf("the agent's page: %s", row.Text())
	}
	if part := w.signedIn("rita", identity.Reviewer).get(agentPath).find("callbacks-part"); part.Find(`[data-testid="callback"], a`).Length() != 0 {
		t.Errorf("a reviewer sees %s", part.Text())
	}
	one := path + "/ops"
	act := func(form string, values url.Values) *answer {
		t.Helper()
		a := olga.post(one+form, values)
		if a.status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", form, a.status, a.text())
		}
		return olga.get(a.header.Get("Location"))
	}
	if a := act("/test", nil); !strings.Contains(a.find("notice").Text(), "The message was delivered.") || a.find("delivery").Length() != 1 ||
		!strings.Contains(a.find("delivery").Text(), "answered HTTP 200") || strings.Contains(a.body, "hushhush") || strings.Contains(a.body, first) {
		t.Errorf("%s", a.text())
	}
	rotated := olga.post(one+"/rotate", url.Values{"grace": {"3600"}})
	if second := strings.TrimSpace(rotated.find("secret-itself").Text()); second == first || !strings.HasPrefix(second, "whsec_") || !strings.Contains(rotated.find("grace").Text(), "for another 1h.") {
		t.Errorf("rotated: %s", rotated.text())
	}
	if a := act("/disable", nil); !strings.Contains(a.find("notice").Text(), "Disabled.") || a.find("resend").Length() != 0 {
		t.Errorf("%s", a.text())
	}
	var delivery string
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT id::text FROM callback_deliveries`).Scan(&delivery))
	if a := act("/deliveries/"+delivery+"/resend", nil); !strings.Contains(a.find("notice").Text(), "Nothing was sent.") {
		t.Errorf("%s", a.text())
	}
	if a := act("/enable", nil); !strings.Contains(a.find("notice").Text(), "Enabled.") {
		t.Errorf("%s", a.text())
	}
	if a := act("/deliveries/"+delivery+"/resend", nil); !strings.Contains(a.find("notice").Text(), "being sent again") || !strings.Contains(a.find("delivery").Text(), "Waiting") {
		t.Errorf("%s", a.text())
	}
	says.Store(http.StatusGone)
	if a := act("/test", nil); !strings.Contains(a.find("notice").Text(), "was not delivered") || !strings.Contains(a.find("callback-page").Text(), "Gone") {
		t.Errorf("%s", a.text())
	}
	if a := act("/delete", nil); a.find("callback").Length() != 0 || !strings.Contains(a.find("notice").Text(), "Deleted.") {
		t.Errorf("%s", a.text())
	}
	for _, form := range []string{"/test", "/rotate", "/enable", "/disable", "/delete", "/deliveries/" + delivery + "/resend"} {
		if a := olga.post(one+form, nil); a.status != http.StatusNotFound || !strings.Contains(a.text(), "No such callback") {
			t.Errorf("%s: %d %s", form, a.status, a.text())
		}
	}
}

// keepsButtonsWhole fails the test if buttons beside the wide log of attempts break within words.
func keepsButtonsWhole(t *testing.T, w *walker) {
	t.Helper()
	w.become(looks()[0])
	lines := browsertest.Eval[[]int](w.page, `(() => {
		for (const details of document.querySelectorAll("td details")) details.open = true;
		return [...document.querySelectorAll("td button")].map(button => {
			const words = document.createRange();
			words.selectNodeContents(button.firstChild);
			return words.getClientRects().length;
		});
	})()`)
	if len(lines) == 0 || slices.Max(lines) > 2 {
		t.Errorf("“Send again” has lines: %v", lines)
	}
}
