package ui_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

func (w *world) gallery() (plain, hostileID, destructive uuid.UUID) {
	principal, err := w.people.CreateSignInLink(w.t.Context(), "ops@example.com", []identity.Role{identity.Reviewer}, 1e12)
	check(w.t, err)
	access, err := w.people.UseSignInLink(w.t.Context(), principal)
	check(w.t, err)
	plain = w.submit(access.Person.ID, "files__save_csv", `{"filename":"invoice-2026-001","rows":[{"date":"2026-01-15","amount":1250.00,"vendor":"Acme Corp"},{"date":"2026-01-16","amount":890.50,"vendor":"Widget Inc"}]}`)
	hostileID = w.submit(uuid.Nil, "files__save_csv", `{"filename":"report\u202efdp.exe","url":"https://\u0430pple.com/pay","to":"p\u0430ypal\u200b support","note":"ok`+strings.Repeat(`\n`, 60)+`rm -rf /","data":"`+strings.Repeat("QUJDRA12", 80)+`","html":"<button>Approve</button>","big":9007199254740993,"tags":"hi\udb40\udc68\udb40\udc69"}`)
	destructive = w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/customers.db","force":true}`)
	return
}

func TestLook(t *testing.T) {
	w := newWorld(t)
	plain, hostileID, destructive := w.gallery()
	for name, o := range map[string]browsertest.Options{"light": {}, "dark": {Dark: true}, "phone": browsertest.Phone()} {
		p := browsertest.New(t, o)
		p.Go(w.server.URL + w.link("ana", identity.Reviewer, identity.Operator))
		p.Screenshot(name + "-signin")
		p.Click("sign-in-link")
		p.Wait("queue")
		p.Screenshot(name + "-queue")
		if name != "phone" {
			p.Press("j")
			p.Wait("decide")
			p.Screenshot(name + "-selected")
			p.Press("j")
			p.WaitText("call", "hidden")
			p.Screenshot(name + "-hostile-pane")
		}
		for n, id := range map[string]uuid.UUID{"plain": plain, "hostile": hostileID, "destructive": destructive} {
			p.Go(w.server.URL + "/calls/" + id.String())
			p.Screenshot(name + "-call-" + n)
		}
		p.WaitFor("armed", `document.documentElement.hasAttribute("data-armed")`)
		p.Go(w.server.URL + "/calls")
		p.Screenshot(name + "-log")
		for _, c := range p.Complaints() {
			t.Errorf("complaint: %s", c)
		}
	}
}
