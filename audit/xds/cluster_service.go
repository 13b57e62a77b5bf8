package xds

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// serviceAccounts are the identities that clients accept of a service's
// workloads: those of all its endpoints and those that the object names, for
// the trust domain and its aliases, sorted (SIZE-6).
func (b *Builder) serviceAccounts(svc *mesh.Service) []string {
	key := mesh.HostNamespace{Host: svc.Host, Namespace: svc.Namespace}
	if known, ok := b.memo.accounts[key]; ok {
		return known
	}
	set := map[string]bool{}
	rows := b.view.Endpoints.Of(svc.Host, svc.Namespace)
	for i := range rows {
		if rows[i].Identity != "" {
			set[rows[i].Identity] = true
		}
	}
	named := svc.Accounts
	for _, s := range b.view.ServicesByHost(svc.Host) {
		if s.Namespace == svc.Namespace {
			named = s.Accounts // istiod keeps the last one's
		}
	}
	for _, a := range named {
		set[a] = true
	}
	for _, identity := range slices.Collect(maps.Keys(set)) {
		for _, domain := range b.view.Config.GetTrustDomainAliases() {
			if _, rest, ok := strings.Cut(strings.TrimPrefix(identity, "spiffe://"), "/"); ok && spiffeIdentity(identity) {
				set["spiffe://"+domain+"/"+rest] = true
			}
		}
	}
	out := slices.Sorted(maps.Keys(set))
	b.memo.accounts[key] = out
	return out
}

// spiffeIdentity reports the form spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT.
func spiffeIdentity(s string) bool {
	rest, ok := strings.CutPrefix(s, "spiffe://")
	parts := strings.Split(rest, "/")
	return ok && len(parts) == 5 && parts[1] == "ns" && parts[3] == "sa"
}

// clientMTLS is what a client takes a service's port to accept; MTLSUnset for
// an external service. Where connections go to the address that the client
// chose, all endpoints must have a sidecar (SIZE-5b; Istio push_context.go
// BestEffortInferServiceMTLSMode).
func (cb *clusterBuilder) clientMTLS(svc *mesh.Service, port mesh.Port, policy *networking.TrafficPolicy) mesh.MTLSMode {
	if svc.External {
		return mesh.MTLSUnset
	}
	if svc.Resolution == mesh.Passthrough || policy.GetLoadBalancer().GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH {
		rows := (&endpointSource{clusterBuilder: cb, service: svc, port: port}).rows()
		if len(rows) == 0 || slices.ContainsFunc(rows, func(row *mesh.Endpoint) bool { return !row.MTLS }) {
			return mesh.MTLSDisable
		}
	}
	if mode := cb.view.ServiceMTLSMode(svc, port.Number); mode != mesh.MTLSUnset {
		return mode
	}
	return mesh.MTLSPermissive
}

// clusterLocalHosts are the hosts whose endpoints stay within their cluster (EDS-4).
type clusterLocalHosts struct {
	hosts map[string]bool
	names []string // the keys of hosts
}

// clusterLocal reports that a service's endpoints are sent only to proxies of
// their own cluster (Istio pilot/pkg/model/cluster_local.go).
func (b *Builder) clusterLocal(svc *mesh.Service) bool {
	if b.memo.local == nil {
		b.memo.local = b.readClusterLocal()
	}
	host, ok := mesh.MostSpecificHost(svc.Host, b.memo.local.names)
	return ok && b.memo.local.hosts[host]
}

func (b *Builder) readClusterLocal() *clusterLocalHosts {
	domain := b.view.Domain
	defaults := []string{"*.kube-system.svc." + domain, "kubernetes.default.svc." + domain}
	if address := b.view.Config.GetDefaultConfig().GetDiscoveryAddress(); address != "" {
		host, _, _ := strings.Cut(address, ":")
		if !strings.HasSuffix(host, domain) {
			host += "." + domain
		}
		defaults = append(defaults, host)
	}
	out := &clusterLocalHosts{hosts: map[string]bool{}}
	for _, s := range b.view.Config.GetServiceSettings() {
		local := s.GetSettings().GetClusterLocal()
		for _, h := range s.GetHosts() {
			if !local {
				defaults = slices.DeleteFunc(defaults, func(d string) bool {
					return h == d || mesh.IsWildcard(d) && strings.HasSuffix(h, d[1:])
				})
			}
			out.hosts[h] = local
		}
	}
	for _, d := range defaults {
		out.hosts[d] = true
	}
	out.names = sortedKeys(out.hosts)
	return out
}
