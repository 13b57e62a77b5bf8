package xds

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

const (
	canonicalNameLabel     = "service.istio.io/canonical-name"
	canonicalRevisionLabel = "service.istio.io/canonical-revision"
)

// mtls reports that clients use Istio mTLS with the endpoint: what the
// DestinationRule says, else the workload's policy (Istio
// pilot/pkg/xds/endpoints/mtls_checker.go). An endpoint without a sidecar never.
func (e *endpointSource) mtls(row *mesh.Endpoint) bool {
	if !row.MTLS {
		return false
	}
	if e.ruleTLS != nil {
		return *e.ruleTLS == networking.ClientTLSSettings_ISTIO_MUTUAL
	}
	return e.view.MTLSMode(row.Namespace, row.Labels, row.Port) != mesh.MTLSDisable
}

// workload is the value of the metadata field that telemetry reads (SIZE-10, SIZE-12).
func (e *endpointSource) workload(row *mesh.Endpoint) string {
	namespace := row.Namespace
	name, revision := mesh.CanonicalService(row.Labels, row.Workload)
	if e.view.Flags.CanonicalForExternalSE && e.service.External {
		namespace = e.service.Namespace
		if own, ok := e.service.Labels[canonicalNameLabel]; ok {
			name, revision = own, e.service.Labels[canonicalRevisionLabel]
		}
	}
	if revision == "latest" {
		revision = ""
	}
	return strings.Join([]string{row.Workload, namespace, name, revision, row.Cluster}, ";")
}

func workloadMetadata(workload string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"workload": structpb.NewStringValue(workload)}}
}

func hasMTLS(ep *endpointv3.LbEndpoint) bool {
	return ep.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()["tlsMode"].GetStringValue() == "istio"
}

// endpointMetadataKey is what decides the metadata of an endpoint.
type endpointMetadataKey struct {
	mtls      bool
	telemetry bool
	workload  string // with telemetry
}

// metadata is an endpoint's metadata, which the replicas of a workload share. It
// must not be changed.
func (e *endpointSource) metadata(row *mesh.Endpoint) *corev3.Metadata {
	key := endpointMetadataKey{mtls: e.mtls(row), telemetry: e.view.Flags.TelemetryLabel && e.view.Flags.EndpointTelemetryLabel}
	if key.telemetry {
		key.workload = e.workload(row)
	}
	known := e.memo.metadata[key]
	if known == nil {
		known = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
		if key.mtls {
			known.FilterMetadata["envoy.transport_socket_match"] = &structpb.Struct{
				Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue("istio")},
			}
		}
		if key.telemetry {
			known.FilterMetadata["istio"] = workloadMetadata(key.workload)
		}
		e.memo.metadata[key] = known
	}
	return known
}

// lbEndpoint is an endpoint as Envoy gets it (SIZE-10).
func (e *endpointSource) lbEndpoint(row *mesh.Endpoint) *endpointv3.LbEndpoint {
	health := row.Health
	if row.Labels.Get(drainingLabel) != "" {
		health = mesh.Draining
	}
	out := &endpointv3.LbEndpoint{
		HealthStatus:        healthStatus(health),
		LoadBalancingWeight: wrapperspb.UInt32(max(row.Weight, 1)),
		Metadata:            e.metadata(row),
	}
	message := &endpointv3.Endpoint{Address: socketAddress(row.Address, row.Port)}
	for _, extra := range row.Extra {
		message.AdditionalAddresses = append(message.AdditionalAddresses, &endpointv3.Endpoint_AdditionalAddress{Address: socketAddress(extra, row.Port)})
	}
	out.HostIdentifier = &endpointv3.LbEndpoint_Endpoint{Endpoint: message}
	return out
}

func healthStatus(h mesh.Health) corev3.HealthStatus {
	switch h {
	case mesh.Healthy:
		return corev3.HealthStatus_HEALTHY
	case mesh.Unhealthy:
		return corev3.HealthStatus_UNHEALTHY
	case mesh.Draining:
		return corev3.HealthStatus_DRAINING
	}
	return corev3.HealthStatus_UNKNOWN
}

// socketAddress is a TCP address, or a pipe for port 0.
func socketAddress(address string, port int) *corev3.Address {
	if port == 0 {
		return pipeAddress(strings.TrimPrefix(address, "unix://"))
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}
