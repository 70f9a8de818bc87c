// Package rpc has the gRPC services over which gateways ask: Envoy's envoy.service.auth.v3.Authorization, and agentgateway's ExtMcp.
//
// The messages have the fields that Holdpoint uses, with the numbers of the published definitions; other fields are skipped. Envoy's
// generated types would register hundreds of messages that Holdpoint does not use.
package rpc

import (
	"cmp"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/types/known/structpb"
)

// CheckRequest is envoy.service.auth.v3.CheckRequest.
type CheckRequest struct {
	Attributes *Attributes `protobuf:"bytes,1,opt,name=attributes,proto3"`
}

// HTTP returns the request that is checked. Nil: there is none.
func (m *CheckRequest) HTTP() *HTTPRequest {
	if m.Attributes == nil || m.Attributes.Request == nil {
		return nil
	}
	return m.Attributes.Request.HTTP
}

// Extension returns a setting of the route in the proxy.
func (m *CheckRequest) Extension(name string) string {
	if m.Attributes == nil {
		return ""
	}
	return m.Attributes.ContextExtensions[name]
}

// Principal returns the identity in the certificate of the client. Empty: it has none.
func (m *CheckRequest) Principal() string {
	if m.Attributes == nil || m.Attributes.Source == nil {
		return ""
	}
	return m.Attributes.Source.Principal
}

// Attributes is envoy.service.auth.v3.AttributeContext.
type Attributes struct {
	Source            *Peer             `protobuf:"bytes,1,opt,name=source,proto3"`
	Request           *Request          `protobuf:"bytes,4,opt,name=request,proto3"`
	ContextExtensions map[string]string `protobuf:"bytes,10,rep,name=context_extensions,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}

// Peer is a sender of requests.
type Peer struct {
	Principal string `protobuf:"bytes,4,opt,name=principal,proto3"`
}

// Request is the request that is checked.
type Request struct {
	HTTP *HTTPRequest `protobuf:"bytes,2,opt,name=http,proto3"`
}

// HTTPRequest is an HTTP request with its body.
type HTTPRequest struct {
	Method    string            `protobuf:"bytes,2,opt,name=method,proto3"`
	Headers   map[string]string `protobuf:"bytes,3,rep,name=headers,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	Path      string            `protobuf:"bytes,4,opt,name=path,proto3"`
	Host      string            `protobuf:"bytes,5,opt,name=host,proto3"`
	Scheme    string            `protobuf:"bytes,6,opt,name=scheme,proto3"`
	Body      string            `protobuf:"bytes,11,opt,name=body,proto3"`
	RawBody   []byte            `protobuf:"bytes,12,opt,name=raw_body,proto3"`
	HeaderMap *HeaderMap        `protobuf:"bytes,13,opt,name=header_map,proto3"`
}

// Header returns the headers, however the proxy sends them.
func (m *HTTPRequest) Header() http.Header {
	h := http.Header{}
	for name, value := range m.Headers {
		h.Add(name, value)
	}
	if m.HeaderMap != nil {
		for _, v := range m.HeaderMap.Headers {
			h.Add(v.Key, cmp.Or(v.Value, string(v.RawValue)))
		}
	}
	return h
}

// HeaderMap is envoy.config.core.v3.HeaderMap.
type HeaderMap struct {
	Headers []*HeaderValue `protobuf:"bytes,1,rep,name=headers,proto3"`
}

// HeaderValue is envoy.config.core.v3.HeaderValue.
type HeaderValue struct {
	Key      string `protobuf:"bytes,1,opt,name=key,proto3"`
	Value    string `protobuf:"bytes,2,opt,name=value,proto3"`
	RawValue []byte `protobuf:"bytes,3,opt,name=raw_value,proto3"`
}

// CheckResponse is envoy.service.auth.v3.CheckResponse. At most one of Denied and OK is set.
type CheckResponse struct {
	Status *Status         `protobuf:"bytes,1,opt,name=status,proto3"`
	Denied *DeniedResponse `protobuf:"bytes,2,opt,name=denied_response,proto3"`
	OK     *Empty          `protobuf:"bytes,3,opt,name=ok_response,proto3"`
}

// Status is google.rpc.Status.
type Status struct {
	Code    int32  `protobuf:"varint,1,opt,name=code,proto3"`
	Message string `protobuf:"bytes,2,opt,name=message,proto3"`
}

// DeniedResponse is what the client of a refused request gets.
type DeniedResponse struct {
	Status  *HTTPStatus     `protobuf:"bytes,1,opt,name=status,proto3"`
	Headers []*HeaderOption `protobuf:"bytes,2,rep,name=headers,proto3"`
	Body    string          `protobuf:"bytes,3,opt,name=body,proto3"`
}

// HTTPStatus is envoy.type.v3.HttpStatus.
type HTTPStatus struct {
	Code int32 `protobuf:"varint,1,opt,name=code,proto3"`
}

// HeaderOption is envoy.config.core.v3.HeaderValueOption.
type HeaderOption struct {
	Header *HeaderValue `protobuf:"bytes,1,opt,name=header,proto3"`
}

// Empty is a message without fields that are used.
type Empty struct{}

// McpRequest is agentgateway.dev.ext_mcp.McpRequest.
type McpRequest struct {
	ServiceNames    []string         `protobuf:"bytes,1,rep,name=service_names,proto3"`
	Method          string           `protobuf:"bytes,2,opt,name=method,proto3"`
	MetadataContext *structpb.Struct `protobuf:"bytes,3,opt,name=metadata_context,proto3"`
	Params          []byte           `protobuf:"bytes,4,opt,name=mcp_request,proto3"`
}

// McpResult is agentgateway.dev.ext_mcp.McpRequestResult and McpResponseResult. One of the three is set.
type McpResult struct {
	Pass    *Empty    `protobuf:"bytes,1,opt,name=pass,proto3"`
	Mutated []byte    `protobuf:"bytes,2,opt,name=mutated,proto3"`
	Error   *McpError `protobuf:"bytes,3,opt,name=error,proto3"`
}

// McpError is agentgateway.dev.ext_mcp.AuthorizationError.
type McpError struct {
	Code    int32  `protobuf:"varint,1,opt,name=code,proto3"`
	Reason  string `protobuf:"bytes,2,opt,name=reason,proto3"`
	Payload []byte `protobuf:"bytes,3,opt,name=mcp_error,proto3"`
}

// PermissionDenied is a code of [McpError].
const PermissionDenied = 1

// gRPC's codec takes messages with the methods Reset, String and ProtoMessage.

// Reset implements a message of protobuf.
func (m *CheckRequest) Reset() { *m = CheckRequest{} }

// String returns the name of the message\'s type.
func (m *CheckRequest) String() string { return fmt.Sprintf("%T", m) }

// ProtoMessage marks a message.
func (*CheckRequest) ProtoMessage() {}

// Reset implements a message of protobuf.
func (m *CheckResponse) Reset() { *m = CheckResponse{} }

// String returns the name of the message\'s type.
func (m *CheckResponse) String() string { return fmt.Sprintf("%T", m) }

// ProtoMessage marks a message.
func (*CheckResponse) ProtoMessage() {}

// Reset implements a message of protobuf.
func (m *McpRequest) Reset() { *m = McpRequest{} }

// String returns the name of the message\'s type.
func (m *McpRequest) String() string { return fmt.Sprintf("%T", m) }

// ProtoMessage marks a message.
func (*McpRequest) ProtoMessage() {}

// Reset implements a message of protobuf.
func (m *McpResult) Reset() { *m = McpResult{} }

// String returns the name of the message\'s type.
func (m *McpResult) String() string { return fmt.Sprintf("%T", m) }

// ProtoMessage marks a message.
func (*McpResult) ProtoMessage() {}
