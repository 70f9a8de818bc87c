package callback_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// Verify checks that the sender of a request has the secret, and that the request is recent. The body is the bytes as they arrived.
func Verify(secret string, header http.Header, body []byte, now time.Time) error {
	const tolerance = 5 * time.Minute
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return errors.New("no id, or too old")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return errors.New("the secret is not base64")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	expected := mac.Sum(nil)
	for signature := range strings.FieldsSeq(header.Get("webhook-signature")) { // one for each secret that is valid
		version, text, _ := strings.Cut(signature, ",")
		given, err := base64.StdEncoding.DecodeString(text)
		if version == "v1" && err == nil && hmac.Equal(given, expected) { // which takes the same time whatever differs
			return nil
		}
	}
	return errors.New("no signature is valid")
}

// TestDocumentedVerification: the code in the documentation is this code, and it accepts only genuine messages.
func TestDocumentedVerification(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/callbacks.md")
	source := read(t, "verify_test.go")
	_, code, _ := strings.Cut(source, "\n// Verify checks")
	code, _, _ = strings.Cut("// Verify checks"+code, "\n}\n")
	if !strings.Contains(page, "```go\n"+code+"\n}\n```") {
		t.Error("docs/callbacks.md does not have Verify as it is here")
	}
	if !strings.Contains(page, "```js\n"+read(t, "../../e2e/callbacks/receiver.mjs")+"```") {
		t.Error("docs/callbacks.md does not have e2e/callbacks/receiver.mjs as it is")
	}

	w := newWorld(t)
	e := newEndpoint(t)
	first := w.createCallback(w.billing, "ops", e.URL)
	_, second, err := w.callbacks.Rotate(t.Context(), audit.System(), w.billing, "ops", time.Hour)
	check(t, err)
	_, err = w.callbacks.Test(t.Context(), audit.System(), w.billing, "ops")
	check(t, err)
	r, now := e.listReceived()[0], time.Now()
	for _, secret := range []string{first, second} {
		if err := Verify(secret, r.header, r.body, now); err != nil {
			t.Error(err)
		}
	}
	changed := func(name, value string) http.Header {
		h := r.header.Clone()
		h.Set(name, value)
		return h
	}
	other := base64.StdEncoding.EncodeToString([]byte("another secret of a good length"))
	for name, err := range map[string]error{
		"another secret":    Verify("whsec_"+other, r.header, r.body, now),
		"not base64":        Verify("whsec_!", r.header, r.body, now),
		"another body":      Verify(first, r.header, append([]byte(" "), r.body...), now),
		"another id":        Verify(first, changed("webhook-id", "x"), r.body, now),
		"no id":             Verify(first, changed("webhook-id", ""), r.body, now),
		"another timestamp": Verify(first, changed("webhook-timestamp", strconv.FormatInt(now.Unix()+60, 10)), r.body, now),
		"no timestamp":      Verify(first, changed("webhook-timestamp", ""), r.body, now),
		"no signature":      Verify(first, changed("webhook-signature", ""), r.body, now),
		"another version":   Verify(first, changed("webhook-signature", strings.ReplaceAll(r.header.Get("webhook-signature"), "v1,", "v2,")), r.body, now),
		"too old":           Verify(first, r.header, r.body, now.Add(6*time.Minute)),
		"from the future":   Verify(first, r.header, r.body, now.Add(-6*time.Minute)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	check(t, err)
	return string(text)
}
