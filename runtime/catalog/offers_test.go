package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[
		{"name":"auto","transport":"http","url":"http://127.0.0.1:1/a","auto_approve":true},
		{"name":"gated","transport":"http","url":"http://127.0.0.1:1/b"},
		{"name":"passing","transport":"http","url":"http://127.0.0.1:1/c","resources":"pass"},
		{"name":"limited","transport":"http","url":"http://127.0.0.1:1/d","auto_approve":true},
		{"name":"personal","transport":"http","url":"http://127.0.0.1:1/e","auto_approve":true,"connection":"per_user"},
		{"name":"foreign","transport":"http","url":"http://127.0.0.1:1/f","auto_approve":true}],
		"agents":[
		{"name":"billing","skills":[{"skill":"personal"},{"skill":"gated"},{"skill":"passing","prefix":""},{"skill":"limited","tools":["echo"]},{"skill":"auto"}]},
		{"name":"other","skills":[{"skill":"foreign"}]}]}`)
	offered := func(principal uuid.UUID) string {
		t.Helper()
		offers, err := w.Offers(t.Context(), w.registry.Agent("billing").ID, principal)
		check(t, err)
		var text strings.Builder
		for _, o := range offers {
			fmt.Fprintf(&text, "%s open=%t prefix=%q problem=%t for=%t\n", o.Skill.Name, o.Open, o.Prefix, o.Problem != nil, o.Server.Principal == principal && principal != uuid.Nil)
		}
		return text.String()
	}
	const nobody = `auto open=true prefix="auto" problem=false for=false
gated open=false prefix="gated" problem=false for=false
limited open=false prefix="limited" problem=false for=false
passing open=true prefix="" problem=false for=false
`
	if got, want := offered(uuid.Nil), nobody+"personal open=true prefix=\"personal\" problem=true for=false\n"; got != want {
		t.Errorf("without a principal:\n%s", got)
	}
	if got, want := offered(uuid.New()), nobody+"personal open=true prefix=\"personal\" problem=false for=true\n"; got != want {
		t.Errorf("for a principal:\n%s", got)
	}
	w.registry.ApplyJSON(`{"agents":[{"name":"billing","skills":[{"skill":"gated"}]}]}`)
	w.agents.Invalidate() // as the notice does
	if got, want := offered(uuid.Nil), "gated open=false prefix=\"gated\" problem=false for=false\n"; got != want {
		t.Errorf("after a change:\n%s", got)
	}
}
