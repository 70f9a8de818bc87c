package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mccutchen/go-httpbin/v2/httpbin"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

// binAPI declares endpoints of go-httpbin.
const binAPI = `skills:
  - name: bin
    transport: http-api
    base_url: %[1]s
    auto_approve: true
    auth: {type: bearer, secret: sk-very-secret-token}
    endpoints:
      - {name: status, path: "/status/{code}"}
      - {name: refuse, method: POST, path: "/status/{code}"}
      - {name: image, path: "/image/{kind}"}
      - {name: bytes, path: "/bytes/{n}"}
      - {name: zipped, path: /gzip}
      - {name: bearer, path: /bearer}
      - {name: go, path: /redirect-to, parameters: {url: {}}}
      - name: anything
        method: POST
        path: "/anything/{part}"
        parameters:
          q: {in: query, schema: {type: array, items: {type: string}}}
          filter: {in: query, schema: {type: object}}
          trace: {in: header, name: X-Trace}
          taste: {in: cookie}
          note: {in: body}
          n: {in: body, type: integer}
        headers: {X-Api-Version: "2026-01"}
      - {name: upload, method: POST, path: /anything/upload, body: multipart, parameters: {title: {}, text: {}}}
  - name: late
    transport: http-api
    base_url: %[1]s
    auto_approve: true
    call_timeout: 2s
    endpoints:
      - {name: slow, path: "/delay/{seconds}"}
      - {name: stream, path: /sse, parameters: {count: {type: integer}, duration: {}}}
  - name: cut
    transport: http-api
    base_url: %[2]s
    auto_approve: true
    endpoints:
      - {name: read, path: "/bytes/{n}"}
agents:
  - name: worker
    skills: [{skill: bin, prefix: ""}, {skill: late, prefix: ""}, cut]
`

// binWorld is a server whose agent "worker" has endpoints of go-httpbin.
type binWorld struct {
	*world
	p      *holdpoint.Process
	worker holdpoint.Agent
}

func newBinWorld(t *testing.T) *binWorld {
	t.Helper()
	bin := httptest.NewServer(httpbin.New(httpbin.WithMaxDuration(time.Hour)))
	t.Cleanup(bin.Close)
	w := &binWorld{world: newWorld(t)}
	w.p = w.startServer()
	w.applyManifest(w.p, fmt.Sprintf(binAPI, bin.URL, startCutter(t, bin.Listener.Addr().String(), 2000)))
	w.worker = w.newAgent(w.p, "worker")
	return w
}

// startCutter relays connections and breaks each after this number of response bytes.
func startCutter(t *testing.T, address string, after int64) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			relays.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer out.Close()
				relays.Go(func() {
					_, _ = io.Copy(out, in)
					_ = out.Close()
				})
				_, _ = io.CopyN(in, out, after)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		relays.Wait()
	})
	return "http://" + listener.Addr().String()
}

func (w *binWorld) callTool(t *testing.T, name, arguments string) holdpoint.Answer {
	t.Helper()
	answer, err := w.worker.CallTool(t.Context(), name, arguments)
	if err != nil {
		t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return answer
}

func TestHTTPFaults(t *testing.T) {
	t.Parallel()
	w := newBinWorld(t)
	t.Run("status", w.testStatuses)
	t.Run("slow", w.testTimeouts)
	t.Run("cut", w.cutOff)
	t.Run("kinds", w.testKinds)
	t.Run("redirects", w.testRedirects)
	t.Run("places", w.testPlaces)
}

func (w *binWorld) testStatuses(t *testing.T) {
	for code, effect := range map[string]string{"400": "none", "404": "none", "409": "none", "429": "none", "500": "possible", "503": "possible"} {
		answer := w.callTool(t, "refuse", `{"code":"`+code+`"}`)
		if !answer.Result.IsError || !strings.HasPrefix(answer.Text(), "Upstream API returned "+code+": ") {
			t.Errorf("%s: %s", code, answer.Raw)
		}
		var call holdpoint.Call
		calls, err := holdpoint.List[holdpoint.Call](t.Context(), operatorAPI(w.p), "calls", "agent=worker")
		if err != nil || len(calls) == 0 {
			t.Fatalf("%d calls, %v", len(calls), err)
		}
		if call = calls[0]; call.Status != "failed" || call.Failure != "tool_error" || call.Effect != effect {
			t.Errorf("%s: the call is %s, %s, effect %s, want effect %s", code, call.Status, call.Failure, call.Effect, effect)
		}
	}
	if answer := w.callTool(t, "status", `{"code":"204"}`); answer.Result.IsError || !strings.Contains(answer.Text(), "204") {
		t.Errorf("204: %s", answer.Raw)
	}
}

// testTimeouts: responses that are too slow or endless end at the call's deadline.
func (w *binWorld) testTimeouts(t *testing.T) {
	for name, arguments := range map[string]string{"slow": `{"seconds":"600"}`, "stream": `{"count":18000,"duration":"50m"}`} {
		answer := w.callTool(t, name, arguments)
		if !answer.Result.IsError || answer.Call().Code != "transport" || answer.Call().Effect != "possible" {
			t.Errorf("%s: %s", name, answer.Raw)
		}
	}
}

// cutOff: a truncated answer is a failure.
func (w *binWorld) cutOff(t *testing.T) {
	answer := w.callTool(t, "cut__read", `{"n":"50000"}`)
	if !answer.Result.IsError || answer.Call().Code != "transport" || answer.Call().Effect != "possible" {
		t.Errorf("%s", answer.Raw)
	}
	if whole := w.callTool(t, "cut__read", `{"n":"100"}`); whole.Result.IsError {
		t.Errorf("what is short enough: %s", whole.Raw)
	}
}

func (w *binWorld) testKinds(t *testing.T) {
	kind := func(answer holdpoint.Answer) (found struct {
		Type, Data, MimeType string
		Resource             struct{ Blob, MimeType string }
	},
	) {
		if len(answer.Result.Content) == 0 || json.Unmarshal(answer.Result.Content[0], &found) != nil {
			t.Errorf("no content: %s", answer.Raw)
		}
		return found
	}
	if image := kind(w.callTool(t, "image", `{"kind":"png"}`)); image.Type != "image" || image.MimeType != "image/png" || !strings.HasPrefix(image.Data, "iVBOR") {
		t.Errorf("an image: %.200v", image)
	}
	if bytes := kind(w.callTool(t, "bytes", `{"n":"64"}`)); bytes.Type != "resource" || bytes.Resource.MimeType != "application/octet-stream" || len(bytes.Resource.Blob) != 88 {
		t.Errorf("bytes: %+v", bytes)
	}
	answer := w.callTool(t, "bearer", `{}`)
	if answer.Result.IsError || strings.Contains(string(answer.Raw), "very-secret") || !strings.Contains(answer.Text(), "authenticated") {
		t.Errorf("a server that says what it was sent: %s", answer.Raw)
	}
}

// testRedirects: a GET follows redirects, except to the address of cloud credentials.
func (w *binWorld) testRedirects(t *testing.T) {
	if answer := w.callTool(t, "go", `{"url":"/uuid"}`); answer.Result.IsError || !strings.Contains(answer.Text(), "uuid") {
		t.Errorf("to the same server: %s", answer.Raw)
	}
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", "http://10.1.2.3/", "http://127.0.0.1:1/", "http://[fd00:ec2::254]/"} {
		answer := w.callTool(t, "go", `{"url":"`+to+`"}`)
		if !answer.Result.IsError || strings.Contains(string(answer.Raw), "very-secret") {
			t.Errorf("to %s: %s", to, answer.Raw)
		}
	}
}

// testPlaces: each argument is sent in its place only.
func (w *binWorld) testPlaces(t *testing.T) {
	answer := w.callTool(t, "anything", `{"part":"a/b?c#d%2e;{q}","q":["1&x=y","2"],"filter":{"k":"v&w","n":1},"trace":"t-1","taste":"sweet; x=y","note":"é\n\"","n":9007199254740993}`)
	var got struct {
		URL     string
		Args    map[string][]string
		Headers map[string][]string
		Data    string
	}
	if err := json.Unmarshal([]byte(answer.Text()), &got); err != nil {
		t.Fatalf("%v: %s", err, answer.Raw)
	}
	if !strings.Contains(got.URL, "/anything/a%2Fb%3Fc%23d%252e%3B%7Bq%7D") {
		t.Errorf("the path is %s", got.URL)
	}
	if q := got.Args["q"]; len(q) != 2 || q[0] != "1&x=y" || got.Args["x"] != nil || got.Args["w"] != nil {
		t.Errorf("the query is %v", got.Args)
	}
	if got.Headers["X-Trace"][0] != "t-1" || got.Headers["X-Api-Version"][0] != "2026-01" || len(got.Headers["Cookie"]) != 1 || strings.Contains(got.Headers["Cookie"][0], "; x=y") {
		t.Errorf("the headers are %v", got.Headers)
	}
	if got.Data != `{"note":"é\n\"","n":9007199254740993}` && got.Data != `{"n":9007199254740993,"note":"é\n\""}` {
		t.Errorf("the body is %s", got.Data)
	}
	for _, bad := range []string{`{"part":"x","trace":"a\r\nX-Evil: 1"}`, `{"part":".."}`, `{"part":"a/../b"}`, `{"part":"a%2f..%2fb"}`, `{"part":"x","trace":"a\u0000b"}`} {
		if answer := w.callTool(t, "anything", bad); !answer.Result.IsError {
			t.Errorf("%s: %s", bad, answer.Raw)
		}
	}
	form := w.callTool(t, "upload", `{"title":"x\"; name=\"evil","text":"line\r\n--boundary"}`)
	var parts struct {
		Form map[string][]string
	}
	if err := json.Unmarshal([]byte(form.Text()), &parts); err != nil || len(parts.Form) != 2 || parts.Form["title"][0] != `x"; name="evil` || parts.Form["text"][0] != "line\r\n--boundary" {
		t.Errorf("a multipart body: %+v, %v: %s", parts.Form, err, form.Raw)
	}
}
