package xds

import (
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// policyOptions is what a traffic policy is applied with.
type policyOptions struct {
	policy    *networking.TrafficPolicy // of the cluster's port; nil: none
	port      mesh.Port
	direction direction
	sniDNAT   bool
	// The rest is for outbound clusters that are no SNI-DNAT ones.
	service   *mesh.Service
	accounts  []string // SANs of the service's workloads
	sni       string
	mtls      mesh.MTLSMode // what clients take the service to accept; MTLSUnset: external
	selecting bool          // the DestinationRule has a workloadSelector
}

// portPolicy is what a policy says for a port: a port-level setting replaces
// all of it (Istio pilot/pkg/networking/util GetPortLevelTrafficPolicy).
func portPolicy(policy *networking.TrafficPolicy, port int) (_ *networking.TrafficPolicy, portLevel bool) {
	for _, s := range policy.GetPortLevelSettings() {
		if s.GetPort() != nil && int(s.GetPort().GetNumber()) == port {
			return &networking.TrafficPolicy{
				ConnectionPool: s.ConnectionPool, LoadBalancer: s.LoadBalancer, OutlierDetection: s.OutlierDetection, Tls: s.Tls,
			}, true
		}
	}
	return policy, false
}

// subsetPolicy lays a subset's policy over the rule's (Istio
// MergeSubsetTrafficPolicy).
func subsetPolicy(original, subset *networking.TrafficPolicy, port int) *networking.TrafficPolicy {
	original, _ = portPolicy(original, port)
	if subset == nil {
		return original
	}
	subset, portLevel := portPolicy(subset, port)
	if original == nil {
		return subset
	}
	out := copyPolicy(original)
	if subset.ConnectionPool != nil || portLevel {
		out.ConnectionPool = subset.ConnectionPool
	}
	if subset.OutlierDetection != nil || portLevel {
		out.OutlierDetection = subset.OutlierDetection
	}
	if subset.LoadBalancer != nil || portLevel {
		out.LoadBalancer = subset.LoadBalancer
	}
	if subset.Tls != nil || portLevel {
		out.Tls = subset.Tls
	}
	if subset.ProxyProtocol != nil {
		out.ProxyProtocol = subset.ProxyProtocol
	}
	if subset.RetryBudget != nil {
		out.RetryBudget = subset.RetryBudget
	}
	return out
}

// copyPolicy copies a policy without its port-level settings.
func copyPolicy(p *networking.TrafficPolicy) *networking.TrafficPolicy {
	return &networking.TrafficPolicy{
		ConnectionPool: p.GetConnectionPool(), LoadBalancer: p.GetLoadBalancer(), OutlierDetection: p.GetOutlierDetection(),
		Tls: p.GetTls(), Tunnel: p.GetTunnel(), ProxyProtocol: p.GetProxyProtocol(), RetryBudget: p.GetRetryBudget(),
	}
}

// withMeshPolicy lays a policy over meshConfig.defaultTrafficPolicy, block by
// block (SIZE-9, FLAG-89).
func (cb *clusterBuilder) withMeshPolicy(policy *networking.TrafficPolicy) *networking.TrafficPolicy {
	base := cb.meshPolicy()
	pool := base.GetConnectionPool() != nil && policy.GetConnectionPool() == nil
	outlier := base.GetOutlierDetection() != nil && policy.GetOutlierDetection() == nil
	if !pool && !outlier {
		return policy
	}
	out := copyPolicy(policy)
	if pool {
		out.ConnectionPool = base.GetConnectionPool()
	}
	if outlier {
		out.OutlierDetection = base.GetOutlierDetection()
	}
	return out
}

// meshPolicy is meshConfig.defaultTrafficPolicy where istiod knows it.
func (cb *clusterBuilder) meshPolicy() *meshconfig.MeshConfig_DefaultTrafficPolicy {
	if !cb.view.Behaviours.MeshTrafficPolicy {
		return nil
	}
	return cb.view.Config.GetDefaultTrafficPolicy()
}

// applyPolicy applies a traffic policy: only the connection pool to inbound
// clusters (Istio cluster_traffic_policy.go).
func (cb *clusterBuilder) applyPolicy(c *cluster, o *policyOptions) {
	pool := o.policy.GetConnectionPool()
	if pool == nil {
		pool = &networking.ConnectionPoolSettings{}
	}
	upgrades, first := o.direction == outbound && cb.upgradesHTTP2(o.port, pool), cb.view.Behaviours.UpgradeBeforePool
	if upgrades && first {
		c.useHTTP2()
	}
	cb.applyPool(c, pool, o.policy.GetRetryBudget())
	if upgrades && !first {
		c.useHTTP2()
	}
	if o.direction == outbound {
		cb.applyOutlier(c, o.service, o.policy.GetOutlierDetection())
		cb.applyLoadBalancer(c, o.service, o.policy.GetLoadBalancer(), o.port)
		if !o.sniDNAT {
			cb.applyTLS(c, o)
			applyProxyProtocol(c.Cluster, o.policy.GetProxyProtocol())
		}
	}
	if c.GetClusterType() == nil && c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	}
}

// upgradesHTTP2 decides on the HTTP/2 upgrade of an outbound cluster.
func (cb *clusterBuilder) upgradesHTTP2(port mesh.Port, pool *networking.ConnectionPoolSettings) bool {
	if h := pool.GetHttp(); h != nil {
		if h.GetUseClientProtocol() {
			return false
		}
		switch h.GetH2UpgradePolicy() {
		case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
			return true
		case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
			return false
		}
	}
	return port.Protocol.IsHTTP() && cb.view.Config.GetH2UpgradePolicy() == meshconfig.MeshConfig_UPGRADE
}

func (cb *clusterBuilder) thresholds(budget *networking.TrafficPolicy_RetryBudget) *clusterv3.CircuitBreakers_Thresholds {
	unlimited := func() *wrapperspb.UInt32Value { return wrapperspb.UInt32(math.MaxUint32) }
	t := &clusterv3.CircuitBreakers_Thresholds{
		MaxRetries: unlimited(), MaxRequests: unlimited(), MaxConnections: unlimited(), MaxPendingRequests: unlimited(),
		TrackRemaining: !cb.view.Flags.DisableTrackRemaining,
	}
	if budget != nil {
		percent, concurrency := 20.0, uint32(3)
		if budget.GetPercent() != nil {
			percent = budget.GetPercent().GetValue()
		}
		if budget.GetMinRetryConcurrency() > 0 {
			concurrency = budget.GetMinRetryConcurrency()
		}
		t.RetryBudget = &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
			BudgetPercent:       &typev3.Percent{Value: percent},
			BudgetInterval:      budget.GetBudgetInterval(),
			MinRetryConcurrency: wrapperspb.UInt32(concurrency),
		}
	}
	return t
}

// applyPool sets connection timeout, circuit breakers, keepalive and the HTTP
// options of a connection pool.
func (cb *clusterBuilder) applyPool(c *cluster, pool *networking.ConnectionPoolSettings, budget *networking.TrafficPolicy_RetryBudget) {
	limits := cb.thresholds(budget)
	h, tcp := pool.GetHttp(), pool.GetTcp()
	setPositive(&limits.MaxRequests, h.GetHttp2MaxRequests())
	setPositive(&limits.MaxPendingRequests, h.GetHttp1MaxPendingRequests())
	setPositive(&limits.MaxRetries, h.GetMaxRetries())
	setPositive(&limits.MaxConnections, tcp.GetMaxConnections())
	if timeout := cb.view.Config.GetConnectTimeout(); timeout != nil {
		c.ConnectTimeout = proto.Clone(timeout).(*durationpb.Duration)
	}
	if tcp.GetConnectTimeout() != nil {
		c.ConnectTimeout = tcp.GetConnectTimeout()
	}
	idle := h.GetIdleTimeout()
	if idle == nil {
		idle = tcp.GetIdleTimeout()
	}
	setKeepalive(c.Cluster, cb.view.Config.GetTcpKeepalive())
	setKeepalive(c.Cluster, tcp.GetTcpKeepalive())
	c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{limits}}
	c.applyHTTPPool(h, idle, tcp.GetMaxConnectionDuration())
	if h.GetUseClientProtocol() {
		c.useDownstreamProtocol()
	}
}

func (c *cluster) applyHTTPPool(h *networking.ConnectionPoolSettings_HTTPSettings, idle, maxDuration *durationpb.Duration) {
	perConnection, streams := uint32(h.GetMaxRequestsPerConnection()), uint32(h.GetMaxConcurrentStreams())
	if maxDuration == nil && idle == nil && perConnection == 0 && streams == 0 && h.GetHttp2KeepAlive() == nil {
		return
	}
	o := c.options()
	if o.CommonHttpProtocolOptions == nil {
		o.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{}
	}
	if idle != nil {
		o.CommonHttpProtocolOptions.IdleTimeout = idle
	}
	if perConnection > 0 {
		o.CommonHttpProtocolOptions.MaxRequestsPerConnection = wrapperspb.UInt32(perConnection)
	}
	if maxDuration != nil {
		o.CommonHttpProtocolOptions.MaxConnectionDuration = maxDuration
	}
	http2 := o.GetExplicitHttpConfig().GetHttp2ProtocolOptions()
	if http2 == nil {
		return
	}
	if streams > 0 {
		http2.MaxConcurrentStreams = wrapperspb.UInt32(streams)
	}
	if k := h.GetHttp2KeepAlive(); k != nil {
		http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.GetInterval(), Timeout: k.GetTimeout()}
	}
}

func setPositive(field **wrapperspb.UInt32Value, value int32) {
	if value > 0 {
		*field = wrapperspb.UInt32(uint32(value))
	}
}

func setKeepalive(c *clusterv3.Cluster, k *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) {
	if k == nil {
		return
	}
	if c.UpstreamConnectionOptions == nil {
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{}}
	}
	out := c.UpstreamConnectionOptions.TcpKeepalive
	if k.GetProbes() > 0 {
		out.KeepaliveProbes = wrapperspb.UInt32(k.GetProbes())
	}
	if k.GetTime() != nil {
		out.KeepaliveTime = wrapperspb.UInt32(uint32(k.GetTime().GetSeconds()))
	}
	if k.GetInterval() != nil {
		out.KeepaliveInterval = wrapperspb.UInt32(uint32(k.GetInterval().GetSeconds()))
	}
}

// applyOutlier sets outlier detection and the panic threshold that goes with it.
func (cb *clusterBuilder) applyOutlier(c *cluster, svc *mesh.Service, outlier *networking.OutlierDetection) {
	if outlier == nil {
		return
	}
	out := &clusterv3.OutlierDetection{EnforcingSuccessRate: wrapperspb.UInt32(0)}
	if e := outlier.GetConsecutive_5XxErrors(); e != nil {
		out.Consecutive_5Xx = wrapperspb.UInt32(e.GetValue())
		out.EnforcingConsecutive_5Xx = enforced(e.GetValue())
	}
	if e := outlier.GetConsecutiveGatewayErrors(); e != nil {
		out.ConsecutiveGatewayFailure = wrapperspb.UInt32(e.GetValue())
		out.EnforcingConsecutiveGatewayFailure = enforced(e.GetValue())
	}
	out.Interval = outlier.GetInterval()
	out.BaseEjectionTime = outlier.GetBaseEjectionTime()
	if outlier.GetMaxEjectionPercent() > 0 {
		out.MaxEjectionPercent = wrapperspb.UInt32(uint32(outlier.GetMaxEjectionPercent()))
	}
	if outlier.GetSplitExternalLocalOriginErrors() {
		out.SplitExternalLocalOriginErrors = true
		if n := outlier.GetConsecutiveLocalOriginFailures().GetValue(); n > 0 {
			out.ConsecutiveLocalOriginFailure = wrapperspb.UInt32(n)
			out.EnforcingConsecutiveLocalOriginFailure = wrapperspb.UInt32(100)
		}
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
	}
	c.OutlierDetection = out
	if minHealth := outlier.GetMinHealthPercent(); minHealth >= 0 {
		if cb.forcesUnhealthy(svc) {
			minHealth = 0
		}
		c.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: float64(minHealth)}
	}
}

func enforced(errors uint32) *wrapperspb.UInt32Value {
	if errors > 0 {
		return wrapperspb.UInt32(100)
	}
	return wrapperspb.UInt32(0)
}

// forcesUnhealthy reports that the service's unready endpoints are always sent (EDS-5).
func (b *Builder) forcesUnhealthy(svc *mesh.Service) bool {
	return b.view.Flags.SendUnhealthyEndpoints || svc != nil && svc.TrafficDistribution != ""
}

// takesUnhealthy reports that they are sent unless a DestinationRule forbids it.
func (b *Builder) takesUnhealthy(svc *mesh.Service) bool {
	return b.view.Flags.AutoSendUnhealthyEndpoints || b.forcesUnhealthy(svc)
}
