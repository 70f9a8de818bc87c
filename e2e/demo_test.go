package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

var signInLink = regexp.MustCompile(`http://\S+/sign-in\?token=\S+`)

// TestDemo follows the first steps of a newcomer, without a browser.
func TestDemo(t *testing.T) {
	t.Parallel()
	w := newEmbeddedWorld(t)
	o := w.serverOptions()
	o.Command, o.Port = "demo", holdpoint.FreePort(t) // the same port again, since it is part of the demo skills' URLs
	p := program.Serve(t, o)
	eventually.Succeeds(t, patience, "the sign-in link", func() error {
		if !signInLink.MatchString(p.Stdout()) {
			return errors.New("it is not printed")
		}
		return nil
	})
	seen := showsInOrder(t, p, 0, firstToken(p)...)
	first := approveInDashboard(t, p, w.dataDir, signInLink.FindString(p.Stdout()))
	showsInOrder(t, p, seen, tokenToWrite(p, first)...)
	shown := pendingInvoice(t, p, "invoice-2026-002")
	if err := operatorAPI(p).Reject(t.Context(), shown, "not this one"); err != nil {
		t.Fatal(err)
	}
	pendingInvoice(t, p, "invoice-2026-003")
	if _, err := os.Stat(invoiceFile(w.dataDir, "invoice-2026-002")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a rejected call: %v", err)
	}
	server := mustRun(t, w.dataDir)
	if err := p.Interrupt(t); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	eventually.Succeeds(t, patience, "PostgreSQL ends with the demo", func() error { return checkGone(server) })
	again := program.Serve(t, o)
	last := approveInvoice(t, again, w.dataDir, "invoice-2026-003")
	// The authorization server has a new key, so earlier tokens are invalid and consent is requested again.
	showsInOrder(t, again, 0,
		"drive    refused a request (401): its token is not valid for this server",
		"auth     issued a token to holdpoint for "+again.URL+"/demo/skills/drive/mcp, scope drive.read drive.write, valid for 2m0s",
	)
	id := "…" + last.CallID[len(last.CallID)-6:]
	showsInOrder(t, again, 0, "reviewer approved the call "+id, "gate     sends the call "+id, "gate     the call "+id+" succeeded")
	if err := again.Interrupt(t); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	for _, run := range []*holdpoint.Process{p, again} {
		if leaked := anyJWT.FindString(run.Stdout()); leaked != "" {
			t.Errorf("%s is printed", leaked)
		}
	}
}

// TestDemoOnAnotherDatabase starts the demo as deploy/compose.yaml does: on a given database, listening on all addresses.
func TestDemoOnAnotherDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.serverOptions()
	o.Command, o.Port = "demo", holdpoint.FreePort(t)
	o.DatabaseURL, o.Env = "", []string{"HOLDPOINT_DEMO_DATABASE_URL=" + w.databaseURL}
	o.Args = []string{"--addr", fmt.Sprintf(":%d", o.Port), "--public-url", fmt.Sprintf("http://localhost:%d", o.Port)}
	p := program.Serve(t, o)
	eventually.Succeeds(t, patience, "the sign-in link", func() error {
		if !strings.HasPrefix(signInLink.FindString(p.Stdout()), fmt.Sprintf("http://localhost:%d/", o.Port)) {
			return fmt.Errorf("it is not printed:\n%s", p.Output())
		}
		return nil
	})
	if err := operatorAPI(p).Approve(t.Context(), pendingInvoice(t, p, "invoice-2026-001")); err != nil {
		t.Fatal(err)
	}
	showsInOrder(t, p, 0, "auth     issued a token to holdpoint for http://127.0.0.1:"+strconv.Itoa(o.Port)+"/demo/skills/drive/mcp, scope drive.read drive.write, valid for 2m0s")
	if _, err := os.Stat(filepath.Join(w.dataDir, "postgres")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an embedded cluster was made: %v", err)
	}
	o.Port, o.Args = holdpoint.FreePort(t), nil
	second := program.Serve(t, o)
	hasValidKeys(t, p, 2, "a second demo on the same data leaves the first one's key")
	p.Kill()
	second.Kill()
	o.Port = holdpoint.FreePort(t) // a killed container holds its port a little longer
	hasValidKeys(t, program.Serve(t, o), 1, "the keys of demos that were killed end")
}

// hasValidKeys waits until the demo's agent has a number of valid keys.
func hasValidKeys(t *testing.T, p *holdpoint.Process, want int, what string) {
	t.Helper()
	eventually.Succeeds(t, patience, what, func() error {
		var keys struct {
			Items []struct {
				RevokedAt *time.Time `json:"revoked_at"`
			} `json:"items"`
		}
		err := operatorAPI(p).Do(t.Context(), http.MethodGet, "agents/demo/keys", nil, &keys)
		valid := 0
		for _, key := range keys.Items {
			if key.RevokedAt == nil {
				valid++
			}
		}
		if err == nil && valid != want {
			err = fmt.Errorf("%d of %d keys are valid, want %d", valid, len(keys.Items), want)
		}
		return err
	})
}

// firstToken returns the lines about how Holdpoint gets to list the protected skill's tools.
func firstToken(p *holdpoint.Process) []string {
	drive := p.URL + "/demo/skills/drive/mcp"
	return []string{
		"drive    refused a request without a token (401), and named its metadata: " + p.URL + "/.well-known/oauth-protected-resource/demo/skills/drive/mcp",
		"drive    named its authorization server: " + p.URL + "/demo/auth",
		"auth     published its token endpoint: " + p.URL + "/demo/auth/token",
		"auth     issued a token to holdpoint for " + drive + ", scope drive.read, valid for 2m0s",
		"drive    accepted a request: its token is valid",
		"agent    sees the tool drive__save_csv",
	}
}

// tokenToWrite returns the lines about an approved call. The token for writing is requested only then.
func tokenToWrite(p *holdpoint.Process, approved holdpoint.Approval) []string {
	id := "…" + approved.CallID[len(approved.CallID)-6:]
	return []string{
		"reviewer approved the call " + id,
		"gate     sends the call " + id,
		"drive    refused a call (403): its token lacks the scope drive.write",
		"auth     issued a token to holdpoint for " + p.URL + "/demo/skills/drive/mcp, scope drive.read drive.write, valid for 2m0s",
		"drive    accepted a call: its token is valid",
		"gate     the call " + id + " succeeded",
	}
}

// anyJWT matches access tokens and client assertions.
var anyJWT = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}[A-Za-z0-9_.-]*`)

// showsInOrder waits for lines in the terminal, in this order, and returns the end of the last one.
func showsInOrder(t *testing.T, p *holdpoint.Process, from int, lines ...string) int {
	t.Helper()
	for _, line := range lines {
		eventually.Succeeds(t, patience, "the line "+line, func() error {
			at := strings.Index(p.Stdout()[from:], "  "+line+"\n")
			if at < 0 {
				return errors.New("it is not shown after the one before")
			}
			from += at + len(line)
			return nil
		})
	}
	return from
}

// approveInDashboard follows the link, opens the call, approves it, and returns it.
func approveInDashboard(t *testing.T, p *holdpoint.Process, dataDir, link string) holdpoint.Approval {
	t.Helper()
	shown := pendingInvoice(t, p, "invoice-2026-001")
	b := holdpoint.NewBrowser(t)
	b.Open(link)
	b.Press("sign-in-link", nil)
	if !b.Has("queue") || !strings.Contains(b.Text(), "save_csv") {
		t.Errorf("after signing in there is no queue with the call:\n%s", b.Text())
	}
	b.Open("/calls/" + shown.CallID)
	if !strings.Contains(b.Text(), "Northwind Traders") {
		t.Errorf("the call's page does not show its arguments:\n%s", b.Text())
	}
	b.Press("approve", map[string]string{"reason": "as agreed"})
	if b.Has("confirm") {
		b.Press("approve", nil)
	}
	if csv := awaitInvoice(t, dataDir, "invoice-2026-001"); !strings.Contains(csv, "Northwind Traders") {
		t.Errorf("the CSV file has\n%s", csv)
	}
	b.Open("/calls/" + shown.CallID)
	if !b.Has("outcome") || !b.Has("decision") {
		t.Errorf("the call's page does not show decision and outcome:\n%s", b.Text())
	}
	thief := holdpoint.NewBrowser(t)
	thief.Open(link)
	thief.Press("sign-in-link", nil)
	if thief.Has("queue") || !thief.Has("sign-in-error") {
		t.Errorf("a link that was used signs in again:\n%s", thief.Text())
	}
	return shown
}

func invoiceFile(dataDir, invoice string) string {
	return filepath.Join(dataDir, "files", invoice+".csv")
}

// pendingInvoice waits for the approval to save an invoice.
func pendingInvoice(t *testing.T, p *holdpoint.Process, invoice string) holdpoint.Approval {
	t.Helper()
	var found holdpoint.Approval
	eventually.Succeeds(t, patience, "the approval to save "+invoice, func() error {
		list, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(p), "approvals", "status=pending")
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.Tool == "save_csv" && strings.Contains(string(a.Arguments), invoice) {
				found = a
				return nil
			}
		}
		return fmt.Errorf("it is not among %d", len(list))
	})
	return found
}

// approveInvoice approves saving an invoice.
func approveInvoice(t *testing.T, p *holdpoint.Process, dataDir, invoice string) holdpoint.Approval {
	t.Helper()
	shown := pendingInvoice(t, p, invoice)
	if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	awaitInvoice(t, dataDir, invoice)
	return shown
}

// awaitInvoice returns the file of an invoice when it is written.
func awaitInvoice(t *testing.T, dataDir, invoice string) string {
	t.Helper()
	var content []byte
	eventually.Succeeds(t, patience, "the file of "+invoice, func() error {
		var err error
		content, err = os.ReadFile(invoiceFile(dataDir, invoice))
		if err == nil && len(content) == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
	return string(content)
}

// TestReviewerTutorial does in a browser what docs/tutorial-reviewer.md says, in its order. Each bold word of the page has to be on the
// dashboard.
func TestReviewerTutorial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.serverOptions()
	o.Command, o.Port, o.DatabaseURL, o.Env = "demo", holdpoint.FreePort(t), "", []string{"HOLDPOINT_DEMO_DATABASE_URL=" + w.databaseURL}
	p := program.Serve(t, o)
	first := pendingInvoice(t, p, "invoice-2026-001")
	d := &desk{Page: browsertest.New(t, browsertest.Options{}), t: t, name: "demo", address: p.URL}
	t.Cleanup(d.wantNoComplaints)
	var seen strings.Builder
	look := func() { seen.WriteString(browsertest.Eval[string](d.Page, "document.body.innerText") + "\n") }

	d.Go(signInLink.FindString(p.Stdout()))
	look()
	d.Click("sign-in-link")
	d.Wait("queue")
	d.openCall(first)
	look()
	d.readAll()
	d.Click("approve")
	if csv := awaitInvoice(t, w.dataDir, "invoice-2026-001"); !strings.Contains(csv, "Northwind Traders") {
		t.Errorf("the CSV file has\n%s", csv)
	}

	open := func(invoice string) holdpoint.Approval {
		next := pendingInvoice(t, p, invoice)
		d.Go(p.URL + "/calls/" + next.CallID)
		d.awaitCall(next)
		return next
	}
	second := open("invoice-2026-002")
	d.Type("reason", "paid already")
	d.Click("reject")

	open("invoice-2026-003")
	if _, err := os.Stat(invoiceFile(w.dataDir, "invoice-2026-002")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a rejected call: %v", err)
	}
	d.Click("edit-open")
	d.awaitStep("editor")
	d.fillField("#edit-json", `{"filename":"invoice-2026-003","rows":[{"date":"2026-02-11","amount":19900,"vendor":"Northwind Traders"}]}`)
	look()
	d.Click("edit-preview")
	d.awaitStep("diff")
	d.readAll()
	look()
	d.Click("approve")
	if csv := awaitInvoice(t, w.dataDir, "invoice-2026-003"); !strings.Contains(csv, "Northwind Traders") {
		t.Errorf("the corrected CSV file has\n%s", csv)
	}

	d.Go(p.URL + "/calls")
	look()
	d.Go(p.URL + "/calls/" + second.CallID)
	d.WaitText("decision", "paid already")
	tutorial, err := os.ReadFile("../docs/tutorial-reviewer.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(string(tutorial), -1) {
		if !strings.Contains(seen.String(), label[1]) {
			t.Errorf("the dashboard does not say %q", label[1])
		}
	}
}
