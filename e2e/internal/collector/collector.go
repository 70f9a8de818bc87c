// Package collector receives traces for tests: OTLP over HTTP, as OpenTelemetry's collector does.
package collector

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector records the spans that it receives.
type Collector struct {
	URL string

	mu     sync.Mutex
	spans  []Span
	header http.Header
	texts  []string // requests as text
}

// Span holds the members of a span that tests read.
type Span struct {
	TraceID, ID, Parent string
	Name                string
	Kind                trace.Span_SpanKind
	Failed              bool
	Began, Ended        uint64 // nanoseconds since 1970
	Attributes          map[string]string
	Resource            map[string]string
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.receiveSpans)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) receiveSpans(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collectortrace.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint("want protobuf: ", err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = r.Header.Clone()
	c.texts = append(c.texts, request.String())
	for _, of := range request.GetResourceSpans() {
		resource := readAttributes(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Name: s.GetName(), Kind: s.GetKind(), Failed: s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR,
					Began: s.GetStartTimeUnixNano(), Ended: s.GetEndTimeUnixNano(),
					Attributes: readAttributes(s.GetAttributes()), Resource: resource,
				})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty response accepts all spans
}

func readAttributes(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		default:
			all[a.GetKey()] = strings.TrimSpace(a.GetValue().String())
		}
	}
	return all
}

// Spans returns the received spans of a trace.
func (c *Collector) Spans(traceID string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []Span
	for _, s := range c.spans {
		if s.TraceID == traceID {
			of = append(of, s)
		}
	}
	return of
}

// Header returns the headers of the last request.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// Says reports whether any request contains a text.
func (c *Collector) Says(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, request := range c.texts {
		if strings.Contains(request, text) {
			return true
		}
	}
	return false
}
