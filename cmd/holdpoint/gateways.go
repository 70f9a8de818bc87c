package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// maxGatewayRequest is the size of the largest request of a gateway: the body that it is about, and what surrounds it.
const maxGatewayRequest = 5 << 20

// maxGatewayChecks is how many requests a gateway may have open on one connection. Others wait.
const maxGatewayChecks = 100

// serveGateways starts the gRPC services for gateways, if the settings have an address for them.
func (s *server) serveGateways(ctx context.Context, services []*grpc.ServiceDesc) error {
	settings := &s.settings.Gateways
	if settings.Addr == "" {
		return nil
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxGatewayRequest), grpc.MaxConcurrentStreams(maxGatewayChecks), grpc.ConnectionTimeout(30 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Minute}),
	}
	secured, err := settings.TLS(s.log, time.Now)
	if err != nil {
		return err
	}
	if secured != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secured)))
	} else {
		s.log.Warn("gateways ask without TLS: anyone on the network path can read their keys", "addr", settings.Addr)
	}
	listener, err := openListener(ctx, settings.Addr, s.settings.Edge, nil, s.log)
	if err != nil {
		return fmt.Errorf("serve gateways: %w", err)
	}
	s.gateways, s.gatewaysAddr = grpc.NewServer(options...), listener.Addr()
	for _, service := range services {
		s.gateways.RegisterService(service, nil)
	}
	go func() {
		if err := s.gateways.Serve(listener); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, grpc.ErrServerStopped) {
			s.log.Error("serve gateways", "error", err)
		}
	}()
	return nil
}
