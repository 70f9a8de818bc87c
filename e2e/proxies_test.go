package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/certtest"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// proxy is a reverse proxy with the configuration of docs/proxies.md.
type proxy struct {
	name        string
	plain, safe string // URLs
	trusts      certtest.Files
	output      bytes.Buffer
}

// proxyKinds are the proxies of docs/proxies.md.
var proxyKinds = []struct {
	name string
	// frame completes the configuration of the page, for a proxy that runs in a folder beside others.
	frame func(dir, page string, plain, safe int) string
	args  func(dir, file string) []string
}{
	{"nginx", frameNginx, func(dir, file string) []string { return []string{"-p", dir, "-c", file, "-e", "stderr"} }},
	{"caddy", frameCaddy, func(_, file string) []string { return []string{"run", "--config", file, "--adapter", "caddyfile"} }},
	{"haproxy", frameHAProxy, func(_, file string) []string { return []string{"-db", "-f", file} }},
}

// frameNginx adds what Debian's nginx.conf has.
func frameNginx(dir, page string, plain, safe int) string {
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	page = strings.Replace(page, "listen 443 ssl http2;", fmt.Sprintf("listen 127.0.0.1:%d; listen 127.0.0.1:%d ssl http2;", plain, safe), 1)
	page = strings.ReplaceAll(page, "/etc/nginx/tls", dir)
	return fmt.Sprintf(`%sdaemon off; pid nginx.pid; worker_processes auto;
events { worker_connections 768; }
http {
	sendfile on; tcp_nopush on; types_hash_max_size 2048; gzip on; ssl_protocols TLSv1.2 TLSv1.3; access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
%s}
`, user, page)
}

func frameCaddy(dir, page string, plain, safe int) string {
	page = strings.ReplaceAll(page, "/etc/caddy/tls", dir)
	secured := strings.Replace(page, "gate.example.com", fmt.Sprintf("https://localhost:%d", safe), 1)
	var open strings.Builder
	for line := range strings.Lines(strings.Replace(page, "gate.example.com", fmt.Sprintf("http://127.0.0.1:%d", plain), 1)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "tls ") {
			open.WriteString(line)
		}
	}
	return "{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system " + dir + "\n}\n" + secured + open.String()
}

// frameHAProxy adds the defaults of Debian's haproxy.cfg.
func frameHAProxy(dir, page string, plain, safe int) string {
	page = strings.Replace(page, "bind :443", fmt.Sprintf("bind 127.0.0.1:%d\n    bind 127.0.0.1:%d", plain, safe), 1)
	page = strings.Replace(page, "/etc/haproxy/tls", dir, 1)
	return "defaults\n    mode http\n    option dontlognull\n    timeout connect 5000\n    timeout client 50000\n    timeout server 50000\n" + page
}

// pageBlock returns the configuration of a language in docs/proxies.md.
func pageBlock(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "\n```"+language+"\n")
	block, _, ended := strings.Cut(block, "```\n")
	if !found || !ended {
		t.Fatalf("docs/proxies.md has no configuration of %s", language)
	}
	return block
}

// startProxies starts all proxies before three servers, whose ports are chosen already.
func startProxies(t *testing.T, ports []int) []*proxy {
	t.Helper()
	all := make([]*proxy, len(proxyKinds))
	for i, kind := range proxyKinds {
		dir := t.TempDir()
		p := &proxy{name: kind.name, trusts: certtest.Write(t, dir, time.Now().Add(time.Hour))}
		cert, err := os.ReadFile(p.trusts.Cert)
		if err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(p.trusts.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "gate.pem"), append(cert, key...), 0o600); err != nil {
			t.Fatal(err)
		}
		plain, safe := holdpoint.FreePort(t), holdpoint.FreePort(t)
		p.plain, p.safe = fmt.Sprintf("http://127.0.0.1:%d", plain), fmt.Sprintf("https://localhost:%d", safe)
		page := pageBlock(t, kind.name)
		for n, port := range ports {
			address := fmt.Sprintf("10.0.0.%d:8080", 11+n)
			if !strings.Contains(page, address) {
				t.Fatalf("the configuration of %s has no server %s", kind.name, address)
			}
			page = strings.ReplaceAll(page, address, fmt.Sprintf("127.0.0.1:%d", port))
		}
		file := filepath.Join(dir, "config")
		if err := os.WriteFile(file, []byte(kind.frame(dir, page, plain, safe)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.start(t, kind.args(dir, file))
		all[i] = p
	}
	return all
}

// start runs the proxy until the test ends.
func (p *proxy) start(t *testing.T, args []string) {
	t.Helper()
	path, err := exec.LookPath(p.name)
	if err != nil {
		path = "/usr/sbin/" + p.name
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s is needed; run `task setup` (Debian: apt-get install nginx caddy haproxy): %v", p.name, err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group has workers
		_ = cmd.Wait()                                      // it was killed
		if t.Failed() {
			t.Logf("output of %s:\n%s", p.name, p.output.String())
		}
	})
}

// awaitReady waits until the proxy reaches a server.
func (p *proxy) awaitReady(t *testing.T) {
	t.Helper()
	eventually.Succeeds(t, patience, p.name+" reaches a server", func() error {
		response, err := http.Get(p.plain + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// proxied is three servers behind all proxies.
type proxied struct {
	*clientWorld

	db      *world
	servers []*holdpoint.Process
	proxies []*proxy
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	w := &proxied{db: newWorld(t)}
	ports := []int{holdpoint.FreePort(t), holdpoint.FreePort(t), holdpoint.FreePort(t)}
	w.proxies = startProxies(t, ports)
	w.db.args = []string{"--trusted-proxies", "127.0.0.1", "--public-url", w.proxies[0].safe}
	for _, port := range ports {
		w.servers = append(w.servers, program.Start(t, w.db.optionsAt(port)))
	}
	for _, p := range w.servers {
		p.AwaitReady(t)
	}
	for _, p := range w.proxies {
		p.awaitReady(t)
	}
	counting := skill.NewCounting(t)
	w.db.applyManifest(w.servers[0], fmt.Sprintf(clientSkills, counting.URL, "2s"))
	w.clientWorld = &clientWorld{
		Process: w.servers[0], counting: counting, agent: w.db.newAgent(w.servers[0], "worker"), hasty: w.db.newAgent(w.servers[0], "hasty"),
	}
	return w
}

func (w *world) optionsAt(port int) holdpoint.Options {
	o := w.serverOptions()
	o.Port = port
	return o
}

// behindProxies are the client kinds that run behind each proxy.
func behindProxies() []clientKind {
	return []clientKind{
		{name: "typescript 1.x", make: newTypeScriptClient("1")},
		{name: "typescript 2.x of 2026-07-28", make: newTypeScriptClient("2-modern")},
		{name: "go through connect", make: goThroughConnect},
		{name: "curl", make: newCurl},
		{name: "tasks", make: newTasking},
	}
}

// longestDefault is longer than the default timeouts of the proxies: 60 s of nginx, and 50 s in Debian's configuration of HAProxy.
const longestDefault = 65 * time.Second

// TestBehindProxies: clients of three servers behind nginx, Caddy and HAProxy, with the configurations of docs/proxies.md. A call waits longer
// than the proxies' default timeouts.
func TestBehindProxies(t *testing.T) {
	t.Parallel()
	w := newProxied(t)
	for i, p := range w.proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			agent := w.agent
			agent.URL = p.plain
			patient := w.nextNumber()
			began := time.Now()
			waiting := beginCall(t, newCurl(t, agent), "counting__record", patient) // accepts JSON only
			shown, err := pendingFor(t.Context(), strconv.Itoa(patient), w.Process)
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range behindProxies() {
				c := kind.make(t, agent)
				w.useAll(t, kind.name, c)
				n := w.nextNumber()
				done := beginCall(t, c, "counting__record", n)
				w.approveCall(t, n)
				wantRecorded(t, <-done, n)
			}
			w.checkStreams(t, agent)
			w.checkUpload(t, p)
			w.checkAddresses(t, p, fmt.Sprintf("127.0.0.%d", 11+i))
			w.checkTLS(t, p)
			_ = pause.For(t.Context(), longestDefault-time.Since(began))
			if err := operatorAPI(w.Process).Approve(t.Context(), shown); err != nil {
				t.Fatal(err)
			}
			wantRecorded(t, <-waiting, patient)
			w.wantCount(t, patient, 1)
		})
	}
}

// checkStreams reads the first event of a stream while its call waits, so it is not buffered.
func (w *proxied) checkStreams(t *testing.T, agent holdpoint.Agent) {
	t.Helper()
	n := w.nextNumber()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counting__record","arguments":{"n":%d},"_meta":{"progressToken":"p"}}}`, n)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpointURL(agent), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + agent.Key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Accept-Encoding": "gzip",
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("no event while the call waits: %q, %v", line, err)
	}
	w.approveCall(t, n)
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), recordedText(n)) {
		t.Errorf("the stream ended with %s, %v", rest, err)
	}
}

// checkUpload uploads more than the default limit of nginx, slowly.
func (w *proxied) checkUpload(t *testing.T, p *proxy) {
	t.Helper()
	content := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	api := holdpoint.API{URL: p.plain, Token: w.agent.Key}
	var to struct {
		UploadURL string            `json:"upload_url"`
		Headers   map[string]string `json:"headers"`
	}
	if err := api.Do(t.Context(), http.MethodPost, "files/presign-upload", map[string]any{
		"filename": "invoice.bin", "content_type": "application/octet-stream", "size": len(content), "sha256": sumOf(content),
	}, &to); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(to.UploadURL)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(to.UploadURL, w.proxies[0].safe+"/") {
		t.Errorf("the upload goes to %s, which is not at the public URL", to.UploadURL)
	}
	read, write := io.Pipe()
	go func() {
		for piece := range 4 {
			_ = pause.For(t.Context(), 100*time.Millisecond)
			quarter := len(content) / 4
			if _, err := write.Write(content[piece*quarter : (piece+1)*quarter]); err != nil {
				return // the response says why
			}
		}
		_ = write.Close() // never fails
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.plain+at.RequestURI(), read)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(content))
	for name, value := range to.Headers {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if said, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 != 2 {
		t.Errorf("the upload: %s, %s, %v", response.Status, said, err)
	}
}

// checkAddresses makes failed authentications from an address of their own, through the proxy and past it, with a forged header.
func (w *proxied) checkAddresses(t *testing.T, p *proxy, from string) {
	t.Helper()
	direct := strings.Replace(from, "127.0.0.", "127.0.1.", 1)
	for source, base := range map[string]string{from: p.plain, direct: w.servers[0].URL} {
		transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext, DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/skills", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer wrong")
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("a wrong token: %s", response.Status)
		}
		eventually.Succeeds(t, patience, "the log of "+source, func() error {
			for _, s := range w.servers {
				if strings.Contains(s.Output(), `"address":"203.0.113.7"`) {
					t.Fatal("the client chose its address")
				}
				if strings.Contains(s.Output(), `"address":"`+source+`"`) {
					return nil
				}
			}
			return errors.New("no server has it")
		})
	}
}

// checkTLS: HTTP/2 to the proxy, with HSTS from the server.
func (w *proxied) checkTLS(t *testing.T, p *proxy) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.trusts.Pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(p.safe + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if hsts := response.Header.Values("Strict-Transport-Security"); response.StatusCode != http.StatusOK || len(hsts) != 1 || response.ProtoMajor != 2 {
		t.Errorf("%s over %s with HSTS %q", response.Status, response.Proto, hsts)
	}
}

// TestRollingRestartBehindProxies restarts three servers one after the other, under load through each proxy. No client gets an error, and each call
// is executed once.
func TestRollingRestartBehindProxies(t *testing.T) {
	t.Parallel()
	w := newProxied(t)
	ctx, calm := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var tally sync.Mutex
	answered := map[string]int{}
	for _, p := range w.proxies {
		for range 2 {
			clients.Go(func() {
				for ctx.Err() == nil {
					n := w.nextNumber()
					if err := w.useThrough(t.Context(), p, n); err != nil {
						t.Errorf("through %s: call %d: %v", p.name, n, err)
						return
					}
					w.wantCount(t, n, 1)
					tally.Lock()
					answered[p.name]++
					tally.Unlock()
				}
			})
		}
	}
	for i, p := range w.servers {
		p.Signal(t, syscall.SIGTERM)
		eventually.Succeeds(t, patience, "/readyz of a stopping server", func() error {
			err := p.Ready()
			if err == nil {
				return errors.New("it is ready")
			}
			if !strings.Contains(err.Error(), "503") {
				return fmt.Errorf("want 503: %w", err)
			}
			return nil
		})
		if err := p.AwaitEnd(t); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
		w.servers[i] = program.Serve(t, w.db.optionsAt(p.Port))
	}
	calm()
	clients.Wait()
	t.Logf("rounds of requests answered: %v", answered)
	for _, p := range w.proxies {
		if answered[p.name] == 0 {
			t.Errorf("nothing was answered through %s", p.name)
		}
	}
}

// useThrough sends one round of requests through a proxy: a list, an auto-approved call, a gated call with its decision.
func (w *proxied) useThrough(ctx context.Context, p *proxy, n int) error {
	agent := w.hasty
	agent.URL = p.plain
	if answer, err := agent.Request(ctx, "tools/list", "{}"); err != nil || answer.Error != nil {
		return fmt.Errorf("list tools: %w, %+v", err, answer.Error)
	}
	answer, err := agent.CallTool(ctx, "counting__record", fmt.Sprintf(`{"n":%d}`, n))
	if err != nil || answer.Error != nil {
		return fmt.Errorf("call: %w, %+v", err, answer.Error)
	}
	if !answer.Pending() {
		return fmt.Errorf("the call is not pending: %s", answer.Raw)
	}
	api := holdpoint.API{URL: p.plain, Token: bootstrapToken}
	shown, err := api.Approval(ctx, answer.Call().ID)
	if err == nil {
		err = api.Approve(ctx, shown)
	}
	for err == nil && answer.Pending() {
		answer, err = agent.Await(ctx, answer.Call().ID)
	}
	if err != nil || answer.Error != nil || answer.Text() != recordedText(n) {
		return fmt.Errorf("decide and await: %w, %s", err, answer.Raw)
	}
	return nil
}
