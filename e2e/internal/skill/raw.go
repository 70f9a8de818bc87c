package skill

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
)

// Raw is a skill server of which every byte is the test's own. It speaks
// the protocol of 2025-11-25 without sessions.
type Raw struct {
	*Ledger
	URL string

	// List answers tools/list. Nil: the tool "record".
	List func(w http.ResponseWriter, r *Request)
	// Call answers tools/call, which was recorded before. Nil: a result.
	Call func(w http.ResponseWriter, r *Request)
	// Session names a new session. Nil: there are none.
	Session func() string

	calls sync.Map // by n: the *Request that came last
}

// Header is what came with n in a header.
func (s *Raw) Header(n, name string) string {
	if r := s.last(n); r != nil {
		return r.HTTP.Header.Get(name)
	}
	return ""
}

// Arguments are the argument bytes that came with n.
func (s *Raw) Arguments(n string) string {
	if r := s.last(n); r != nil {
		return string(r.Params.Arguments)
	}
	return ""
}

func (s *Raw) last(n string) *Request {
	found, _ := s.calls.Load(n)
	r, _ := found.(*Request)
	return r
}

// Request is one JSON-RPC request as it came.
type Request struct {
	HTTP   *http.Request   `json:"-"`
	Body   []byte          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Cursor    string          `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

// N is the argument n, as it was written.
func (r *Request) N() string { return ArgumentN(r.Params.Arguments) }

// RecordTool is the definition of the tool "record".
const RecordTool = `{"name":"record","description":"Records a number.","inputSchema":` + recordSchema + `}`

// Serve starts the server; it ends with the test.
func (s *Raw) Serve(t testing.TB) *Raw {
	s.Ledger = NewLedger()
	s.URL = serve(t, s, s.Release)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Raw) ServeHTTP(w http.ResponseWriter, h *http.Request) {
	if h.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(h.Body)
	if err != nil {
		return // the client left
	}
	r := &Request{HTTP: h, Body: body}
	if err := json.Unmarshal(body, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.answer(w, r)
}

func (s *Raw) answer(w http.ResponseWriter, r *Request) {
	switch {
	case r.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case r.Method == "initialize":
		if s.Session != nil {
			w.Header().Set("Mcp-Session-Id", s.Session())
		}
		r.Answer(w, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`)
	case r.Method == "ping":
		r.Answer(w, `{}`)
	case r.Method == "tools/list":
		if s.List != nil {
			s.List(w, r)
			return
		}
		r.Answer(w, `{"tools":[`+RecordTool+`]}`)
	case r.Method == "tools/call":
		s.calls.Store(r.N(), r)
		held := s.Record(r.N())
		if s.Call != nil {
			s.Call(w, r)
			return
		}
		if held != nil {
			<-held
		}
		r.Answer(w, `{"content":[{"type":"text","text":"recorded `+r.N()+`"}]}`)
	default:
		r.Fail(w, -32601, "no such method")
	}
}

// Answer answers with a result, byte for byte.
func (r *Request) Answer(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result) // the client may be gone
}

// Fail answers with a JSON-RPC error.
func (r *Request) Fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, message) // the client may be gone
}

// CloseConnection breaks the connection off as it is.
func CloseConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
