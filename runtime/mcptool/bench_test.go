package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// BenchmarkEcho compares an echo call through this package with the SDK's client, in alternating rounds against an SDK
// server in another process. It reports the median time of a call (x-time) and this process's CPU time (x-cpu) as
// multiples of the SDK client's.
func BenchmarkEcho(b *testing.B) {
	arguments := json.RawMessage(`{"message":"` + strings.Repeat("x", 64) + `"}`)
	urls := benchServer(b)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range listEras() {
			if !yield(name) {
				return
			}
		}
	}) {
		for _, clients := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(name, " ", "-"), clients), func(b *testing.B) {
				s := newSource(b, mcptool.Config{})
				skill := httpSkill(urls[name])
				ours := func() error {
					_, err := s.Call(b.Context(), skill, tool.CallRequest{CallID: uuid.New(), Tool: "echo", Arguments: arguments})
					return err
				}
				transport := &http.Transport{MaxIdleConnsPerHost: 128} // the default keeps only two idle connections
				defer transport.CloseIdleConnections()
				client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
				session, err := client.Connect(b.Context(), &mcp.StreamableClientTransport{
					Endpoint: urls[name], HTTPClient: &http.Client{Transport: transport},
				}, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = session.Close() }()
				theirs := func() error {
					_, err := session.CallTool(b.Context(), &mcp.CallToolParams{Name: "echo", Arguments: arguments})
					return err
				}
				compareClients(b, clients, ours, theirs)
			})
		}
	}
}

// compareClients runs both in alternating rounds.
func compareClients(b *testing.B, clients int, ours, theirs func() error) {
	b.Helper()
	const calls = 200
	runRound(b, clients, calls, ours)
	runRound(b, clients, calls, theirs)
	var times, cpus, took []float64
	for b.Loop() {
		ourTime, ourCPU := runRound(b, clients, calls, ours)
		theirTime, theirCPU := runRound(b, clients, calls, theirs)
		times = append(times, float64(ourTime)/float64(theirTime))
		cpus = append(cpus, float64(ourCPU)/float64(theirCPU))
		took = append(took, float64(ourTime.Microseconds()))
	}
	b.ReportMetric(median(times), "x-time")
	b.ReportMetric(median(cpus), "x-cpu")
	b.ReportMetric(median(took), "µs/call")
}

// runRound makes calls from several clients, and returns their median duration and total CPU time.
func runRound(b *testing.B, clients, calls int, call func() error) (p50, cpu time.Duration) {
	b.Helper()
	times := make([]float64, calls)
	before := cpuTime()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := c; i < calls; i += clients {
				began := time.Now()
				if err := call(); err != nil {
					b.Error(err)
				}
				times[i] = float64(time.Since(began))
			}
		})
	}
	all.Wait()
	return time.Duration(median(times)), cpuTime() - before
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// benchServer starts this binary as a server of all eras.
func benchServer(b *testing.B) map[string]string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	server := exec.CommandContext(b.Context(), self)
	server.Env = []string{"MCPTOOL_TEST_SERVER=bench"}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var urls map[string]string
	if err != nil || json.Unmarshal(line, &urls) != nil {
		b.Fatal(string(line), err)
	}
	return urls
}

// runBenchServer serves an echo tool in all eras and prints the addresses.
func runBenchServer() {
	urls := map[string]string{}
	for name, options := range listEras() {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		server := echoServer()
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
		urls[name] = "http://" + listener.Addr().String()
		go func() { _ = (&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}).Serve(listener) }()
	}
	text, err := json.Marshal(urls)
	if err != nil {
		panic(err)
	}
	writeLine(string(text))
	select {}
}

// BenchmarkEchoStdio measures a call over pipes to a child of this binary.
func BenchmarkEchoStdio(b *testing.B) {
	s := newSource(b, mcptool.Config{DataDir: b.TempDir()})
	skill := childSkill(b, "raw")
	callTool(b, s, skill, "mirror", `{}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Call(b.Context(), skill, tool.CallRequest{Tool: "mirror", Arguments: json.RawMessage(`{"a":1}`)}); err != nil {
			b.Fatal(err)
		}
	}
}
