package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/eventually"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

var signInLink = regexp.MustCompile(`http://\S+/sign-in\?token=\S+`)

// TestDemo is what a newcomer sees, without a browser.
func TestDemo(t *testing.T) {
	t.Parallel()
	w := newEmbeddedWorld(t)
	o := w.options()
	o.Command, o.Port = "demo", holdpoint.FreePort(t) // the same again: it is in the URLs of the demo's skills
	p := program.Serve(t, o)
	eventually.Succeeds(t, patience, "the sign-in link", func() error {
		if !signInLink.MatchString(p.Stdout()) {
			return errors.New("it is not printed")
		}
		return nil
	})
	first := approveInvoice(t, p, w.dataDir, "invoice-2026-001")
	if !strings.Contains(first, "Northwind Traders") {
		t.Errorf("the CSV file has\n%s", first)
	}
	shown := pendingInvoice(t, p, "invoice-2026-002")
	if err := operator(p).Reject(t.Context(), shown, "not this one"); err != nil {
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
	if err := gone(server); err != nil {
		t.Errorf("PostgreSQL outlives the demo: %v", err)
	}
	again := program.Serve(t, o)
	approveInvoice(t, again, w.dataDir, "invoice-2026-003")
	if err := again.Interrupt(t); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

func invoiceFile(dataDir, invoice string) string {
	return filepath.Join(dataDir, "files", invoice+".csv")
}

// pendingInvoice waits for the approval to save an invoice.
func pendingInvoice(t *testing.T, p *holdpoint.Process, invoice string) holdpoint.Approval {
	t.Helper()
	var found holdpoint.Approval
	eventually.Succeeds(t, patience, "the approval to save "+invoice, func() error {
		list, err := holdpoint.List[holdpoint.Approval](t.Context(), operator(p), "approvals", "status=pending")
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

// approveInvoice approves saving an invoice and returns the file that appears.
func approveInvoice(t *testing.T, p *holdpoint.Process, dataDir, invoice string) string {
	t.Helper()
	if err := operator(p).Approve(t.Context(), pendingInvoice(t, p, invoice)); err != nil {
		t.Fatal(err)
	}
	var content []byte
	eventually.Succeeds(t, patience, "the file of "+invoice, func() error {
		var err error
		content, err = os.ReadFile(invoiceFile(dataDir, invoice))
		return err
	})
	return string(content)
}
