package cli_test

import (
	"strings"
	"testing"
)

func TestApprovalOfAnAPI(t *testing.T) {
	t.Parallel()
	const request = `"request":{"method":"PATCH","url":"https://shop.example/orders/a%2Fb","headers":[{"name":"Authorization","secret":true},
		{"name":"X-Note","value":"\u202enow"}],"text":"{\"n\":9007199254740993}","bytes":null},`
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", strings.Replace(approvalText, `"digest"`, request+`"digest"`, 1)).
		setAnswer("GET /api/v1/approvals/a1/preview", `{"request":{"method":"GET","url":"https://shop.example/orders/a%2Fb","headers":[],"text":null,"bytes":null},
			"status":200,"media_type":"application/json","cut":true,"text":"{\"n\":1}","bytes":null}`)
	got := f.run("approvals", "show", "a1").wantCode(t, 0)
	for _, want := range []string{"PATCH https://shop.example/orders/a%2Fb\n", "Authorization: (secret)\n", "9007199254740993"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("lacks %q: %s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "\u202e") {
		t.Errorf("an invisible character reaches the terminal: %q", got.stdout)
	}
	got = f.run("approvals", "show", "a1", "--preview").wantCode(t, 0)
	for _, want := range []string{"GET https://shop.example/orders/a%2Fb answers HTTP 200:\n", `"n": 1`, "only the beginning was read"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("lacks %q: %s", want, got.stdout)
		}
	}
}
