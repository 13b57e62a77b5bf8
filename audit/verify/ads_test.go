package verify_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/verify"
)

// adsServer answers each first request for a type with what it has of it.
type adsServer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	have   map[string][]*discoveryv3.Resource
	silent bool // closes the stream instead of answering

	mu       sync.Mutex
	requests []*discoveryv3.DeltaDiscoveryRequest
}

func (s *adsServer) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for {
		r, err := stream.Recv()
		if err != nil || s.silent {
			return nil //nolint:nilerr // the client is done
		}
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		if r.GetResponseNonce() != "" {
			continue
		}
		err = stream.Send(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: r.GetTypeUrl(), Nonce: "n-" + r.GetTypeUrl(), Resources: s.have[r.GetTypeUrl()],
			ControlPlane: &corev3.ControlPlane{Identifier: `{"Component":"istiod","ID":"istiod-0","Info":{"version":"1.31.0"}}`},
		})
		if err != nil {
			return err
		}
	}
}

func serve(t *testing.T, s *adsServer) *verify.Istiod {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	istiod, err := verify.Dial(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = istiod.Close() })
	return istiod
}

func resource(t *testing.T, name string, m proto.Message) *discoveryv3.Resource {
	t.Helper()
	message, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Resource: message}
}

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

func TestAsk(t *testing.T) {
	c := &clusterv3.Cluster{
		Name: "outbound|80||a", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "a-by-another-name"},
	}
	s := &adsServer{have: map[string][]*discoveryv3.Resource{
		clusterType:  {resource(t, c.GetName(), c)},
		endpointType: {resource(t, "a-by-another-name", &endpointv3.ClusterLoadAssignment{ClusterName: "a-by-another-name"})},
	}}
	node := mesh.Node{
		Namespace: "shop", Name: "web-0", ID: "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local", Locality: "r/z",
		Metadata: map[string]any{"NAMESPACE": "shop", "LABELS": map[string]any{"app": "web"}},
	}
	a, err := serve(t, s).Ask(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Types["cds"][c.GetName()]; got == nil || got.Bytes != int64(proto.Size(c)) {
		t.Errorf("cluster %+v, want one of %d bytes", got, proto.Size(c))
	}
	if a.Types["eds"]["a-by-another-name"] == nil || !a.Bytes || a.Istiod != "1.31.0" {
		t.Errorf("got %+v", a)
	}
	if a.From == "" || !strings.HasPrefix(a.From, "istiod 1.31.0 at 127.0.0.1:") {
		t.Errorf("from %q", a.From)
	}
	first := s.requests[0].GetNode()
	if first.GetId() != node.ID || first.GetLocality().GetZone() != "z" || first.GetMetadata().GetFields()["NAMESPACE"].GetStringValue() != "shop" {
		t.Errorf("node %v", first)
	}
	var subscribed []string
	acknowledged := false
	for _, r := range s.requests {
		if r.GetTypeUrl() == endpointType && r.GetResponseNonce() == "" {
			subscribed = r.GetResourceNamesSubscribe()
		}
		acknowledged = acknowledged || r.GetTypeUrl() == clusterType && r.GetResponseNonce() == "n-"+clusterType
	}
	if len(subscribed) != 1 || subscribed[0] != "a-by-another-name" || !acknowledged {
		t.Errorf("subscribed to %q, clusters acknowledged: %v", subscribed, acknowledged)
	}
}

func TestAskFails(t *testing.T) {
	node := mesh.Node{ID: "sidecar~10.0.0.1~a.b~b.svc.cluster.local"}
	if _, err := serve(t, &adsServer{silent: true}).Ask(t.Context(), node); err == nil || !strings.Contains(err.Error(), "closed the stream before it answered for cds") {
		t.Errorf("closed: %v", err)
	}
}

// Where no istiod is, one error says so at once, not each proxy after a while.
func TestDialFails(t *testing.T) {
	for want, serve := range map[string]func(net.Conn){
		"it does not answer":                       func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"what listens there does not speak HTTP/2": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"connect: connection refused":              nil,
	} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if serve == nil {
			_ = listener.Close()
		}
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				serve(c)
				_ = c.Close()
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		address := listener.Addr().String()
		if _, err := verify.Dial(ctx, address); err == nil || !strings.Contains(err.Error(), "no istiod at "+address+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		cancel()
		_ = listener.Close()
	}
}
