package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// Authorization returns Envoy's authorization service.
func Authorization(check func(context.Context, *CheckRequest) *CheckResponse) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: "envoy.service.auth.v3.Authorization", Methods: []grpc.MethodDesc{newMethod("Check", check)}}
}

// ExtMcp returns agentgateway's policy service. Results of servers pass.
func ExtMcp(check func(context.Context, *McpRequest) *McpResult) *grpc.ServiceDesc {
	pass := func(context.Context, *McpRequest) *McpResult { return &McpResult{Pass: &Empty{}} } // its fields are not read
	return &grpc.ServiceDesc{ServiceName: "agentgateway.dev.ext_mcp.ExtMcp", Methods: []grpc.MethodDesc{
		newMethod("CheckRequest", check), newMethod("CheckResponse", pass),
	}}
}

// newMethod returns a method of a service. Its function answers all requests: gateways may take an error for consent.
func newMethod[Q, A any](name string, serve func(context.Context, *Q) *A) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		request := new(Q)
		if err := decode(request); err != nil {
			return nil, err
		}
		return serve(ctx, request), nil
	}}
}
