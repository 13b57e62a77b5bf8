package validation

import (
	"math/big"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) destinationRule(at *path, s *networking.DestinationRule) {
	c.wildcardDomain(at.key("host"), s.GetHost())
	c.trafficPolicy(at.key("trafficPolicy"), s.GetTrafficPolicy())
	names := map[string]bool{}
	for i, subset := range s.GetSubsets() {
		at := at.key("subsets").item(i)
		if names[subset.GetName()] {
			c.refuse(at.key("name"), "%q is there twice", subset.GetName())
		}
		names[subset.GetName()] = true
		c.label(at.key("name"), subset.GetName())
		c.kubernetesLabels(at.key("labels"), subset.GetLabels())
		c.trafficPolicy(at.key("trafficPolicy"), subset.GetTrafficPolicy())
	}
	c.exportTo(at.key("exportTo"), s.GetExportTo(), false)
	if s.GetWorkloadSelector() != nil {
		for i, namespace := range s.GetExportTo() {
			if namespace != "." && namespace != c.namespace {
				c.refuse(at.key("exportTo").item(i), "with a workloadSelector only its own namespace")
			}
		}
	}
	c.matchLabels(at.key("workloadSelector").key("matchLabels"), s.GetWorkloadSelector().GetMatchLabels())
}

func (c *checker) trafficPolicy(at *path, p *networking.TrafficPolicy) {
	switch {
	case p == nil:
		return
	case p.GetOutlierDetection() == nil && p.GetConnectionPool() == nil && p.GetLoadBalancer() == nil && p.GetTls() == nil &&
		p.PortLevelSettings == nil && p.GetTunnel() == nil && p.GetProxyProtocol() == nil && p.GetRetryBudget() == nil:
		c.refuse(at, "empty")
	case p.GetTunnel() != nil && p.GetProxyProtocol() != nil:
		c.refuse(at.key("tunnel"), "not together with proxyProtocol")
	}
	c.outlierDetection(at.key("outlierDetection"), p.GetOutlierDetection())
	c.connectionPool(at.key("connectionPool"), p.GetConnectionPool())
	c.loadBalancer(at.key("loadBalancer"), p.GetLoadBalancer())
	c.clientTLS(at.key("tls"), p.GetTls())
	for i, port := range p.GetPortLevelSettings() {
		at := at.key("portLevelSettings").item(i)
		if port.GetPort() == nil {
			c.refuse(at.key("port"), "missing")
		}
		if port.GetOutlierDetection() == nil && port.GetConnectionPool() == nil && port.GetLoadBalancer() == nil && port.GetTls() == nil {
			c.refuse(at, "empty")
		}
		c.outlierDetection(at.key("outlierDetection"), port.GetOutlierDetection())
		c.connectionPool(at.key("connectionPool"), port.GetConnectionPool())
		c.loadBalancer(at.key("loadBalancer"), port.GetLoadBalancer())
		c.clientTLS(at.key("tls"), port.GetTls())
	}
	c.tunnel(at.key("tunnel"), p.GetTunnel())
}

func (c *checker) tunnel(at *path, t *networking.TrafficPolicy_TunnelSettings) {
	if t == nil {
		return
	}
	if p := t.GetProtocol(); p != "" && p != "CONNECT" && p != "POST" {
		c.refuse(at.key("protocol"), "%q is neither CONNECT nor POST", p)
	}
	c.fqdnOrAddress(at.key("targetHost"), t.GetTargetHost())
	c.port(at.key("targetPort"), int64(t.GetTargetPort()))
}

func (c *checker) outlierDetection(at *path, o *networking.OutlierDetection) {
	c.optionalDuration(at.key("baseEjectionTime"), o.GetBaseEjectionTime())
	c.optionalDuration(at.key("interval"), o.GetInterval())
	if !o.GetSplitExternalLocalOriginErrors() && o.GetConsecutiveLocalOriginFailures().GetValue() > 0 {
		c.refuse(at.key("consecutiveLocalOriginFailures"), "only with splitExternalLocalOriginErrors")
	}
	c.percent(at.key("maxEjectionPercent"), o.GetMaxEjectionPercent())
	c.percent(at.key("minHealthPercent"), o.GetMinHealthPercent())
}

func (c *checker) connectionPool(at *path, p *networking.ConnectionPoolSettings) {
	c.pool(at, p)
	if k := p.GetHttp().GetHttp2KeepAlive(); k != nil {
		c.duration(at.key("http").key("http2KeepAlive").key("interval"), k.GetInterval())
		c.duration(at.key("http").key("http2KeepAlive").key("timeout"), k.GetTimeout())
	}
}

// pool is what a connection pool has in common with that of the mesh config.
func (c *checker) pool(at *path, p *networking.ConnectionPoolSettings) {
	if p != nil && p.GetHttp() == nil && p.GetTcp() == nil {
		c.refuse(at, "one of http, tcp is needed")
	}
	c.httpPool(at.key("http"), p.GetHttp())
	tcp, t := at.key("tcp"), p.GetTcp()
	c.notNegative(tcp.key("maxConnections"), t.GetMaxConnections())
	c.optionalDuration(tcp.key("connectTimeout"), t.GetConnectTimeout())
	c.optionalDuration(tcp.key("maxConnectionDuration"), t.GetMaxConnectionDuration())
	if t.GetIdleTimeout().AsDuration().Milliseconds() != 0 {
		c.duration(tcp.key("idleTimeout"), t.GetIdleTimeout())
	}
	c.optionalDuration(tcp.key("tcpKeepalive").key("time"), t.GetTcpKeepalive().GetTime())
	c.optionalDuration(tcp.key("tcpKeepalive").key("interval"), t.GetTcpKeepalive().GetInterval())
}

func (c *checker) httpPool(at *path, h *networking.ConnectionPoolSettings_HTTPSettings) {
	c.notNegative(at.key("http1MaxPendingRequests"), h.GetHttp1MaxPendingRequests())
	c.notNegative(at.key("http2MaxRequests"), h.GetHttp2MaxRequests())
	c.notNegative(at.key("maxRequestsPerConnection"), h.GetMaxRequestsPerConnection())
	c.notNegative(at.key("maxRetries"), h.GetMaxRetries())
	c.notNegative(at.key("maxConcurrentStreams"), h.GetMaxConcurrentStreams())
	c.optionalDuration(at.key("idleTimeout"), h.GetIdleTimeout())
	if h.GetH2UpgradePolicy() == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE && h.GetUseClientProtocol() {
		c.refuse(at.key("useClientProtocol"), "not together with h2UpgradePolicy UPGRADE")
	}
}

func (c *checker) loadBalancer(at *path, l *networking.LoadBalancerSettings) {
	c.consistentHash(at.key("consistentHash"), l.GetConsistentHash())
	if l.GetLocalityLbSetting() != nil && l.GetZoneAwareLbSetting() != nil {
		c.refuse(at.key("zoneAwareLbSetting"), "not together with localityLbSetting")
	}
	c.localityLB(at.key("localityLbSetting"), l.GetLocalityLbSetting())
	c.zoneAwareLB(at.key("zoneAwareLbSetting"), l.GetZoneAwareLbSetting())
	if w := l.GetWarmup(); w != nil {
		at := at.key("warmup")
		c.duration(at.key("duration"), w.GetDuration())
		if v := w.GetMinimumPercent().GetValue(); v > 100 {
			c.refuse(at.key("minimumPercent"), "%g is more than 100", v)
		}
		if w.GetAggression() != nil && w.GetAggression().GetValue() <= 0 {
			c.refuse(at.key("aggression"), "%g is not positive", w.GetAggression().GetValue())
		}
	}
}

func (c *checker) consistentHash(at *path, h *networking.LoadBalancerSettings_ConsistentHashLB) {
	if cookie := h.GetHttpCookie(); cookie != nil {
		if cookie.GetName() == "" {
			c.refuse(at.key("httpCookie").key("name"), "missing")
		}
		names := map[string]bool{}
		for i, attribute := range cookie.GetAttributes() {
			if name := attribute.GetName(); name == "" || names[name] {
				c.refuse(at.key("httpCookie").key("attributes").item(i).key("name"), "%q is empty or there twice", name)
			}
			names[attribute.GetName()] = true
		}
	}
	if h.GetMinimumRingSize() != 0 && h.GetHashAlgorithm() != nil { // still read
		c.refuse(at.key("minimumRingSize"), "not together with maglev or ringHash")
	}
	if h.GetMaglev() == nil {
		return
	}
	if n := h.GetMaglev().GetTableSize(); n >= 5000011 || n != 1 && !new(big.Int).SetUint64(n).ProbablyPrime(0) {
		c.refuse(at.key("maglev").key("tableSize"), "%d is not a prime below 5000011", n)
	}
}

// topologyLabels are the labels of nodes that localities come from.
var topologyLabels = map[string]bool{
	"topology.kubernetes.io/region": true, "topology.kubernetes.io/zone": true, "topology.istio.io/subzone": true,
}

func (c *checker) localityLB(at *path, l *networking.LocalityLoadBalancerSetting) {
	if len(l.GetDistribute()) > 0 && len(l.GetFailover()) > 0 {
		c.refuse(at.key("failover"), "not together with distribute")
		return
	}
	for i, label := range l.GetFailoverPriority() {
		if len(l.GetFailover()) > 0 && topologyLabels[label] {
			c.refuse(at.key("failoverPriority").item(i), "%q: not together with failover", label)
			return
		}
	}
	var from []string
	for i, d := range l.GetDistribute() {
		at := at.key("distribute").item(i)
		from = append(from, d.GetFrom())
		if !c.localityWeights(at.key("to"), d.GetTo()) {
			return
		}
		c.localities(at.key("to"), sorted(d.GetTo()))
	}
	c.localities(at.key("distribute"), from)
	for i, f := range l.GetFailover() {
		c.failover(at.key("failover").item(i), f.GetFrom(), f.GetTo())
	}
}

func (c *checker) localityWeights(at *path, weights map[string]uint32) bool {
	total := uint32(0)
	for _, locality := range sorted(weights) {
		w := weights[locality]
		if w < 1 || w > 100 {
			c.refuse(at.key(locality), "%d is not between 1 and 100", w)
			return false
		}
		total += w
	}
	if total != 100 {
		c.refuse(at, "the weights add up to %d, not 100", total)
	}
	return total == 100
}

// localities checks that none covers another, and that * stands at an end. Of a
// wildcard only what comes after it is looked at, as Istio does.
func (c *checker) localities(at *path, list []string) {
	for i, locality := range list {
		star := strings.IndexByte(locality, '*')
		parts := strings.SplitN(locality, "/", 3)
		for _, part := range parts {
			if part == "" || star >= 0 && star < len(locality)-1 {
				c.refuse(at, "%q is not of the form region/zone/subzone, which may end with *", locality)
				return
			}
		}
		for _, other := range list[:i] {
			if covers(other, parts) || star < 0 && covers(locality, strings.SplitN(other, "/", 3)) {
				c.refuse(at, "%q and %q overlap", locality, other)
				return
			}
		}
	}
}

// covers reports that a locality is another one, or one above it.
func covers(locality string, parts []string) bool {
	own := strings.SplitN(locality, "/", 3)
	if len(own) > len(parts) {
		return false
	}
	for i, part := range own {
		if part != "*" && part != parts[i] {
			return false
		}
	}
	return true
}

func (c *checker) failover(at *path, from, to string) {
	if from == to {
		c.refuse(at, "from and to are both %q", from)
	}
	if strings.ContainsAny(from+to, "/*") {
		c.refuse(at, "%q to %q: only regions belong here, without *", from, to)
	}
}

func (c *checker) zoneAwareLB(at *path, l *networking.ZoneAwareLoadBalancerSetting) {
	for i, label := range l.GetFailoverPriority() {
		if topologyLabels[label] {
			c.refuse(at.key("failoverPriority").item(i), "%q: zones and regions have their order already", label)
		}
	}
	for i, f := range l.GetFailover() {
		c.failover(at.key("failover").item(i), f.GetFrom(), f.GetTo())
	}
}

func (c *checker) clientTLS(at *path, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	const configMap = "configmap://"
	if name, found := strings.CutPrefix(t.GetCredentialName(), configMap); found {
		if namespace, name, _ := strings.Cut(name, "/"); namespace == "" || name == "" || namespace != c.namespace {
			c.refuse(at.key("credentialName"), "%q is not of the form configmap://namespace/name with the namespace of the object", t.GetCredentialName())
		}
	}
	simple, mutual := t.GetMode() == networking.ClientTLSSettings_SIMPLE, t.GetMode() == networking.ClientTLSSettings_MUTUAL
	if t.GetInsecureSkipVerify().GetValue() {
		if (simple || mutual) && (t.GetCaCertificates() != "" || t.SubjectAltNames != nil) || simple && t.GetCredentialName() != "" {
			c.refuse(at.key("insecureSkipVerify"), "not together with what certificates are checked against")
		}
	}
	switch {
	case (simple || mutual) && t.GetCredentialName() != "":
		if t.GetClientCertificate()+t.GetCaCertificates()+t.GetPrivateKey()+t.GetCaCrl() != "" {
			c.refuse(at.key("credentialName"), "not together with certificates in files")
		}
	case mutual && t.GetClientCertificate() == "":
		c.refuse(at.key("clientCertificate"), "missing, which mode MUTUAL needs")
	case mutual && t.GetPrivateKey() == "":
		c.refuse(at.key("privateKey"), "missing, which mode MUTUAL needs")
	}
}
