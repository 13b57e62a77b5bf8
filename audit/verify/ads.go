package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// typeURLs are the types as istiod names them.
var typeURLs = map[string]string{
	"cds":  "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	"eds":  "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	"lds":  "type.googleapis.com/envoy.config.listener.v3.Listener",
	"rds":  "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
	"ecds": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
	"nds":  "type.googleapis.com/istio.networking.nds.v1.NameTable",
}

// silence is how long to wait for types that istiod does not answer where it
// has nothing.
const silence = 3 * time.Second

// connectPatience is how long to wait for the connection.
const connectPatience = 10 * time.Second

// Istiod is a connection to an istiod's plaintext ADS.
type Istiod struct {
	address string
	conn    *grpc.ClientConn
}

// Dial connects to HOST:PORT. The error says why that failed, or that nothing
// there spoke HTTP/2 within 10 s.
func Dial(ctx context.Context, address string) (*Istiod, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	var refused atomic.Value
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				refused.Store(err.Error())
			}
			return c, err
		}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	conn.Connect()
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			return &Istiod{address: address, conn: conn}, nil
		}
		if state != connectivity.TransientFailure && conn.WaitForStateChange(ctx, state) {
			continue
		}
		_ = conn.Close()
		why, ok := refused.Load().(string)
		switch {
		case ok:
		case state == connectivity.TransientFailure:
			why = "what listens there does not speak HTTP/2 in clear text, as istiod does on port 15010"
		default:
			why = "it does not answer"
		}
		return nil, fmt.Errorf("no istiod at %s: %s", address, why)
	}
}

// Close ends the connection.
func (i *Istiod) Close() error { return i.conn.Close() }

// Ask connects as the proxy, subscribes as its Envoy and agent do, and returns
// what istiod sends. It ends the stream before it returns.
func (i *Istiod) Ask(ctx context.Context, node mesh.Node) (*Actual, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	about, err := nodeMessage(node)
	if err != nil {
		return nil, err
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(i.conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("istiod at %s: %w", i.address, err)
	}
	s := &subscription{stream: stream, node: about, actual: newActual("istiod at " + i.address), answers: make(chan answer, 1)}
	s.actual.Bytes, s.actual.NodeID = true, node.ID
	go s.receive(ctx)
	if err := s.run(ctx, node.DNS); err != nil {
		return nil, fmt.Errorf("istiod at %s: %w", i.address, err)
	}
	if s.actual.Istiod != "" {
		s.actual.From = "istiod " + s.actual.Istiod + " at " + i.address
	}
	return s.actual, nil
}

func nodeMessage(node mesh.Node) (*corev3.Node, error) {
	metadata, err := structpb.NewStruct(node.Metadata)
	if err != nil {
		return nil, fmt.Errorf("metadata of %s/%s: %w", node.Namespace, node.Name, err)
	}
	out := &corev3.Node{Id: node.ID, Metadata: metadata}
	if words := strings.SplitN(node.Locality, "/", 3); node.Locality != "" {
		words = append(words, "", "")
		out.Locality = &corev3.Locality{Region: words[0], Zone: words[1], SubZone: words[2]}
	}
	return out, nil
}

// answer is what the stream gave.
type answer struct {
	response *discoveryv3.DeltaDiscoveryResponse
	err      error
}

// subscription is one stream.
type subscription struct {
	stream  discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node    *corev3.Node // nil once it was sent
	actual  *Actual
	answers chan answer
	refs    references
}

func (s *subscription) receive(ctx context.Context) {
	for {
		response, err := s.stream.Recv()
		select {
		case s.answers <- answer{response, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// run asks for the types in Envoy's order: each refers to what the next asks for.
func (s *subscription) run(ctx context.Context, dns bool) error {
	if err := s.fetch(ctx, "cds", nil, 0); err != nil {
		return err
	}
	if err := s.fetchNamed(ctx, "eds", &s.refs.endpoints, 0); err != nil {
		return err
	}
	if err := s.fetch(ctx, "lds", nil, 0); err != nil {
		return err
	}
	if err := s.fetchNamed(ctx, "rds", &s.refs.routes, 0); err != nil {
		return err
	}
	if err := s.fetchNamed(ctx, "ecds", &s.refs.extensions, silence); err != nil {
		return err
	}
	if !dns {
		s.actual.NotTold["nds"] = "the proxy's agent does not ask for it"
		return nil
	}
	return s.fetch(ctx, "nds", nil, silence)
}

func (s *subscription) fetchNamed(ctx context.Context, xdsType string, names *[]string, patience time.Duration) error {
	slices.Sort(*names)
	*names = slices.Compact(*names)
	s.actual.add(xdsType, nil)
	if len(*names) == 0 {
		return nil
	}
	return s.fetch(ctx, xdsType, *names, patience)
}

// fetch subscribes to the names of a type, to all if there are none, and waits
// for the answer: for ever, or if patience is not 0 for that long.
func (s *subscription) fetch(ctx context.Context, xdsType string, names []string, patience time.Duration) error {
	s.actual.add(xdsType, nil)
	if err := s.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[xdsType], ResourceNamesSubscribe: names}); err != nil {
		return err
	}
	var enough <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer for %s: %w", xdsType, ctx.Err())
		case <-enough:
			s.actual.note("istiod did not answer for %s within %s: taken as none", xdsType, patience)
			return nil
		case a := <-s.answers:
			if a.err != nil {
				return streamError(xdsType, a.err)
			}
			if err := s.take(a.response); err != nil {
				return err
			}
			if a.response.GetTypeUrl() == typeURLs[xdsType] {
				return nil
			}
		}
	}
}

func streamError(xdsType string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("istiod closed the stream before it answered for %s", xdsType)
	}
	return fmt.Errorf("%s: %w", xdsType, err)
}

func (s *subscription) send(r *discoveryv3.DeltaDiscoveryRequest) error {
	r.Node, s.node = s.node, nil
	if err := s.stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil // after io.EOF the reason comes from Recv
}

// take files a response of any type that was asked for, and acknowledges it.
func (s *subscription) take(response *discoveryv3.DeltaDiscoveryResponse) error {
	s.identify(response.GetControlPlane().GetIdentifier())
	xdsType := ""
	for short, url := range typeURLs {
		if url == response.GetTypeUrl() {
			xdsType = short
		}
	}
	if xdsType == "" {
		return nil
	}
	for _, r := range response.GetResources() {
		if err := s.file(xdsType, r.GetName(), r.GetResource()); err != nil {
			return err
		}
	}
	for _, name := range response.GetRemovedResources() {
		delete(s.actual.Types[xdsType], name)
	}
	return s.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()})
}

func (s *subscription) file(xdsType, name string, message *anypb.Any) error {
	r, refs, err := takeApart(xdsType, name, message)
	if err != nil {
		return err
	}
	s.refs.routes = append(s.refs.routes, refs.routes...)
	s.refs.extensions = append(s.refs.extensions, refs.extensions...)
	s.refs.endpoints = append(s.refs.endpoints, refs.endpoints...)
	s.actual.add(xdsType, r)
	return nil
}

// identify reads istiod's version from what it says of itself.
func (s *subscription) identify(text string) {
	var who struct {
		Info struct {
			Version string `json:"version"`
		}
	}
	if s.actual.Istiod == "" && json.Unmarshal([]byte(text), &who) == nil && who.Info.Version != "unknown" {
		s.actual.Istiod = who.Info.Version // "unknown" is a build without a version
	}
}
