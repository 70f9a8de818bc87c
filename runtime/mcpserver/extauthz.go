package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/rpc"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// Settings of a proxy, in its context_extensions or in the metadata of its gRPC requests.
const (
	extAuthzDenied  = "holdpoint-denied"         // "result": a refused call gets a JSON-RPC result with status 200
	extAuthzSubject = "holdpoint-subject-header" // the header in which the proxy names the user
)

// checkedRequest is an HTTP request about which a proxy asks.
type checkedRequest struct {
	method, host, scheme, path string
	header                     http.Header
	body                       []byte
	read                       func() ([]byte, error) // reads the body of an authenticated gateway; nil: it is there
	asked                      bool                   // the method is that of the proxy's question, which may differ from the request's

	setting   func(name string) string
	principal string // of the client's certificate
}

// refuseRequest returns the error of a request that cannot be judged.
func refuseRequest(format string, args ...any) error {
	return &gateProblem{http.StatusForbidden, codeInvalidRequest, fmt.Sprintf(format, args...)}
}

// readToolCall returns the tool call in a request. Nil: it has none, and passes. An error refuses a request in which a server might read
// another call than Holdpoint does.
func (s *Server) readToolCall(r *checkedRequest) (*wire.Message, error) {
	h := r.header
	switch length := h.Get("Content-Length"); {
	case h.Get("X-Envoy-Auth-Partial-Body") == "true":
		return nil, refuseRequest("the body is larger than the gateway passes on")
	case len(r.body) > 0 || h.Get("Transfer-Encoding") != "" || length != "" && length != "0":
	case r.asked && h.Get("Content-Type") != "" || mayHaveBody(r.method) || mayHaveBody(cmp.Or(h.Get("X-Forwarded-Method"), h.Get("X-Original-Method"), r.method)):
		return nil, refuseRequest("the gateway must pass on the body of each request that may have one")
	default:
		return nil, nil
	}
	if err := checkEncoding(h); err != nil {
		return nil, err
	}
	msg := &wire.Message{}
	if fault := s.parsers.Parse(r.body, msg); fault != nil {
		return msg, refuseRequest("the body must be one complete JSON-RPC message: %s", fault.Message)
	}
	if err := checkMessageNames(r.body); err != nil {
		return msg, err
	}
	const method = "tools/call"
	switch mirrored := h.Get(wire.HeaderMethod); {
	case mirrored != "" && mirrored != msg.Method:
		return msg, refuseRequest("the header %s must be the method of the message", wire.HeaderMethod)
	case msg.Method == method && msg.ID == nil:
		return msg, refuseRequest("a tool call must have an id")
	case msg.Method == method:
		return msg, nil
	case strings.EqualFold(strings.TrimSpace(msg.Method), method):
		return msg, refuseRequest("the method must be %s", method)
	}
	return nil, nil
}

// mayHaveBody reports whether requests with a method may be tool calls.
func mayHaveBody(method string) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete}, method)
}

// checkEncoding refuses bodies that a server may read in another encoding.
func checkEncoding(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return refuseRequest("the body must not be compressed")
	}
	media, parameters, err := mime.ParseMediaType(cmp.Or(h.Get("Content-Type"), "application/json"))
	if charset := parameters["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuseRequest("Content-Type must be application/json in UTF-8")
	}
	return nil
}

// checkMessageNames refuses members that some servers read as others: their names differ in case only.
func checkMessageNames(message []byte) error {
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(message, &members); err != nil {
		return refuseRequest("the body must be a JSON object")
	}
	if err := checkCase(members, "jsonrpc", "id", "method", "params"); err != nil {
		return err
	}
	return checkParamNames(members["params"])
}

func checkParamNames(params []byte) error {
	var members map[string]jsontext.Value
	if len(params) > 0 && params[0] == '{' && jsonv2.Unmarshal(params, &members) != nil {
		return refuseRequest("params: must be a JSON object")
	}
	return checkCase(members, "name", "arguments", "task", "_meta")
}

func checkCase(members map[string]jsontext.Value, known ...string) error {
	for name := range members {
		for _, k := range known {
			if name != k && strings.EqualFold(name, k) {
				return refuseRequest("the member %s must be written %s", plain.Quoted(name, wire.MaxShown), k)
			}
		}
	}
	return nil
}

// describeTarget returns the address that the request calls. Approvals are bound to it. Queries may have secrets, so only their hash is kept.
func (r *checkedRequest) describeTarget() string {
	path, query, found := strings.Cut(r.path, "?")
	address := cmp.Or(r.scheme, "http") + "://" + r.host + path
	if found {
		sum := sha256.Sum256([]byte(query))
		address += "?sha256=" + hex.EncodeToString(sum[:])
	}
	return address
}

// readSubject returns for whom the call is made, as the proxy says.
func (r *checkedRequest) readSubject() (call.GateSubject, error) {
	name := r.setting(extAuthzSubject)
	if name == "" {
		if r.principal == "" {
			return call.GateSubject{}, nil
		}
		return call.GateSubject{Type: "certificate", ID: r.principal}, nil
	}
	ids := r.header.Values(name)
	if len(ids) != 1 || ids[0] == "" { // one of two may be the client's
		return call.GateSubject{}, refuseRequest("the header %s, in which the gateway names the user, must occur once", plain.Quoted(name, wire.MaxShown))
	}
	return call.GateSubject{Type: "user", ID: ids[0]}, nil
}

// checkHTTP judges a request. It passes only if pass is true; else refusal says why, and msg is what was read of it.
func (s *Server) checkHTTP(ctx context.Context, key string, r *checkedRequest) (pass bool, refusal string, msg *wire.Message) {
	var who caller
	p, err := func() (p call.Passage, err error) {
		defer recoverGateway(&err)
		if ctx, who, err = s.identifyGateway(ctx, key); err != nil {
			return p, err
		}
		if r.read != nil {
			if r.body, err = r.read(); err != nil {
				return p, err
			}
		}
		if msg, err = s.readToolCall(r); msg == nil || err != nil {
			return call.Passage{Allowed: err == nil}, err
		}
		ask := gateAsk{Skill: r.setting(gatewaySkill), Tool: msg.Name, Arguments: msg.Arguments}
		if ask.subject, err = r.readSubject(); err != nil {
			return p, err
		}
		ask.Context.Host, ask.Context.Cwd = "ext_authz gateway", r.describeTarget()
		return s.askForGateway(ctx, who, &ask)
	}()
	if err != nil {
		return false, s.describeRefusal(who, err), msg
	}
	return p.Allowed, p.Message, msg
}

// checkExtAuthz is the method Check of Envoy's authorization service.
func (s *Server) checkExtAuthz(ctx context.Context, q *rpc.CheckRequest) *rpc.CheckResponse {
	r := &checkedRequest{setting: func(name string) string { return cmp.Or(q.Extension(name), metadataValue(ctx, name)) }, principal: q.Principal()}
	if h := q.HTTP(); h != nil {
		r.method, r.host, r.scheme, r.path, r.header, r.body = h.Method, h.Host, h.Scheme, h.Path, h.Header(), h.RawBody
		if h.Body != "" { // Envoy replaces bytes in it that are not UTF-8
			return denyCheck("This request was refused: the gateway must pass the body as bytes (pack_as_bytes: true).", nil, false)
		}
	}
	pass, refusal, msg := s.checkHTTP(ctx, gatewayKey(ctx), r)
	if pass {
		return &rpc.CheckResponse{Status: &rpc.Status{}, OK: &rpc.Empty{}}
	}
	return denyCheck(refusal, msg, r.setting(extAuthzDenied) == "result")
}

// denyCheck returns the answer that refuses a request: with 403, or as the result of the tool call.
func denyCheck(refusal string, msg *wire.Message, asResult bool) *rpc.CheckResponse {
	status, media, body := int32(http.StatusForbidden), "text/plain; charset=utf-8", refusal
	if asResult && msg != nil && msg.ID != nil && msg.Method == "tools/call" {
		result := map[string]any{"content": []map[string]string{{"type": "text", "text": refusal}}, "isError": true}
		if msg.Meta.Version != "" {
			result["resultType"] = "complete"
		}
		status, media = http.StatusOK, "application/json"
		body = string(marshal(map[string]any{"jsonrpc": "2.0", "id": jsontext.Value(msg.ID), "result": result}))
	}
	return &rpc.CheckResponse{
		Status: &rpc.Status{Code: int32(codes.PermissionDenied), Message: "refused by Holdpoint"},
		Denied: &rpc.DeniedResponse{
			Status: &rpc.HTTPStatus{Code: status}, Body: body,
			Headers: []*rpc.HeaderOption{{Header: &rpc.HeaderValue{Key: "content-type", Value: media}}},
		},
	}
}

// metadataValue returns a value of a gRPC request. Two values are none.
func metadataValue(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// gatewayKey returns the one key of a gRPC request.
func gatewayKey(ctx context.Context) string {
	h := http.Header{}
	h.Set("Authorization", metadataValue(ctx, "authorization"))
	h.Set("X-Agent-API-Key", metadataValue(ctx, "x-agent-api-key"))
	key, _, _ := readCredential(h)
	return key
}

// serveExtAuthz answers a proxy that asks over HTTP: 200 lets a request pass. The key has a header of its own, because proxies also pass the
// client's Authorization on.
func (s *Server) serveExtAuthz(w http.ResponseWriter, r *http.Request) {
	read := func() ([]byte, error) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
		if err != nil {
			err = refuseRequest("the body must be complete and have at most %d bytes", s.MaxBody)
		}
		return body, err
	}
	key := ""
	if keys := r.Header.Values("X-Agent-API-Key"); len(keys) == 1 { // one of two may be the client's
		key = keys[0]
	}
	path := strings.TrimPrefix(r.URL.RequestURI(), "/ext-authz/"+url.PathEscape(r.PathValue("skill")))
	pass, refusal, _ := s.checkHTTP(r.Context(), key, &checkedRequest{
		method: r.Method, host: r.Host, path: path, header: r.Header, read: read, asked: true,
		setting: func(name string) string {
			if name == gatewaySkill {
				return r.PathValue("skill")
			}
			return r.Header.Get(name)
		},
	})
	if pass {
		w.WriteHeader(http.StatusOK)
		return
	}
	http.Error(w, refusal, http.StatusForbidden)
}
