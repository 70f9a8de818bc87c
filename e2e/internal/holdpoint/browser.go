package holdpoint

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
)

// Browser uses the dashboard as a browser without scripts.
type Browser struct {
	t      testing.TB
	client *http.Client
	at     *url.URL

	// Page is the current page, Status its HTTP status.
	Page   *goquery.Document
	Status int
}

// NewBrowser opens a browser without cookies.
func NewBrowser(t testing.TB) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{t: t, client: &http.Client{Jar: jar, Timeout: 30 * time.Second}}
}

// Open opens an address, which may be relative to the page.
func (b *Browser) Open(address string) {
	b.t.Helper()
	b.loadPage(http.MethodGet, b.resolveURL(address), nil)
}

// Press submits the form of the button with this data-testid.
func (b *Browser) Press(testID string, typed map[string]string) {
	b.t.Helper()
	button := b.Page.Find(fmt.Sprintf("button[data-testid=%q]", testID))
	form := button.Closest("form")
	if button.Length() != 1 || form.Length() != 1 {
		b.t.Fatalf("want exactly one button %q at %s:\n%s", testID, b.at, b.Text())
	}
	values := url.Values{}
	form.Find("input[name], textarea[name]").Each(func(_ int, field *goquery.Selection) {
		name := field.AttrOr("name", "")
		values.Set(name, field.AttrOr("value", field.Text()))
	})
	for name, value := range typed {
		values.Set(name, value)
	}
	action := button.AttrOr("formaction", form.AttrOr("action", b.at.String()))
	b.loadPage(http.MethodPost, b.resolveURL(action), strings.NewReader(values.Encode()))
}

// Has reports whether the page has an element with this data-testid.
func (b *Browser) Has(testID string) bool {
	return b.Page.Find(fmt.Sprintf("[data-testid=%q]", testID)).Length() > 0
}

// Text returns the text of the page.
func (b *Browser) Text() string {
	return strings.Join(strings.Fields(b.Page.Find("body").Text()), " ")
}

func (b *Browser) resolveURL(address string) *url.URL {
	b.t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.at != nil {
		to = b.at.ResolveReference(to)
	}
	return to
}

func (b *Browser) loadPage(method string, to *url.URL, body io.Reader) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, to.String(), body)
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", to.Scheme+"://"+to.Host)
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	b.at, b.Status = response.Request.URL, response.StatusCode
	if b.Page, err = goquery.NewDocumentFromReader(response.Body); err != nil {
		b.t.Fatal(err)
	}
}
