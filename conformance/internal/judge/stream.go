package judge

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/pkg/xds"
)

// markerType is asked for after each real request: istiod handles requests
// in order, so its answer shows that the one before is complete.
const markerType = "type.mesh-audit.io/Marker"

// answerTimeout bounds the wait for one type.
const answerTimeout = 2 * time.Minute

// marker answers requests for markerType with nothing.
type marker struct{}

// Generate implements model.XdsResourceGenerator.
func (marker) Generate(*model.Proxy, *model.WatchedResource, *model.PushRequest) (model.Resources, model.XdsLogDetails, error) {
	return model.Resources{}, model.DefaultXdsLogDetails, nil
}

// stream is one ADS connection, delta as agents use it, without a network
// between.
type stream struct {
	grpc.ServerStream
	ctx       context.Context
	cancel    context.CancelFunc
	node      *core.Node
	requests  chan *discovery.DeltaDiscoveryRequest
	responses chan *discovery.DeltaDiscoveryResponse
	done      chan error
}

// openStream connects a proxy to the server.
func openStream(s *xds.DiscoveryServer, node *core.Node) *stream {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)}})
	ctx, cancel := context.WithCancel(ctx)
	st := &stream{
		ctx: ctx, cancel: cancel, node: node,
		requests:  make(chan *discovery.DeltaDiscoveryRequest),
		responses: make(chan *discovery.DeltaDiscoveryResponse, 16),
		done:      make(chan error, 1),
	}
	go func() { st.done <- s.StreamDeltas(st) }()
	return st
}

// close ends the connection and waits until the server is done with it.
func (st *stream) close() {
	st.cancel()
	select {
	case <-st.done:
	case <-time.After(answerTimeout):
	}
}

// Context implements grpc.ServerStream.
func (st *stream) Context() context.Context { return st.ctx }

// Recv gives the server the proxy's next request.
func (st *stream) Recv() (*discovery.DeltaDiscoveryRequest, error) {
	select {
	case r := <-st.requests:
		return r, nil
	case <-st.ctx.Done():
		return nil, io.EOF
	}
}

// Send takes the server's response.
func (st *stream) Send(r *discovery.DeltaDiscoveryResponse) error {
	select {
	case st.responses <- r:
		return nil
	case <-st.ctx.Done():
		return st.ctx.Err()
	}
}

// fetch subscribes to the names of a type (to all if there are none) and
// returns what the server sends.
func (st *stream) fetch(typeURL string, names []string) ([]*discovery.Resource, error) {
	if err := st.send(typeURL, names); err != nil {
		return nil, err
	}
	// A new name each time, else the server takes it for an acknowledgement.
	if err := st.send(markerType, []string{typeURL}); err != nil {
		return nil, err
	}
	var out []*discovery.Resource
	for {
		r, err := st.next(typeURL)
		if err != nil {
			return nil, err
		}
		if r.TypeUrl == markerType {
			return out, nil
		}
		if r.TypeUrl == typeURL {
			out = append(out, r.Resources...)
		}
	}
}

// send hands one request to the server.
func (st *stream) send(typeURL string, names []string) error {
	return st.subscribe(typeURL, names, nil)
}

// subscribe asks for names and no longer for others.
func (st *stream) subscribe(typeURL string, more, less []string) error {
	r := &discovery.DeltaDiscoveryRequest{Node: st.node, TypeUrl: typeURL, ResourceNamesSubscribe: more, ResourceNamesUnsubscribe: less}
	select {
	case st.requests <- r:
		return nil
	case err := <-st.done:
		st.done <- err
		return fmt.Errorf("istiod closed the stream before %s: %w", typeURL, err)
	case <-time.After(answerTimeout):
		return fmt.Errorf("istiod did not take the request for %s", typeURL)
	}
}

// next waits for a response.
func (st *stream) next(typeURL string) (*discovery.DeltaDiscoveryResponse, error) {
	select {
	case r := <-st.responses:
		return r, nil
	case err := <-st.done:
		st.done <- err
		return nil, fmt.Errorf("istiod closed the stream at %s: %w", typeURL, err)
	case <-time.After(answerTimeout):
		return nil, fmt.Errorf("istiod did not answer the request for %s", typeURL)
	}
}
