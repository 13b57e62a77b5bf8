package genmesh

import (
	"fmt"
	"sort"
)

// sortedKeys lists a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// service is a Kubernetes Service.
type service struct {
	ns, name string
	ports    []M
	object   M
	selector M
	headless bool
	external bool
	publish  bool
}

// host is the service's full name.
func (s *service) host() string { return s.name + "." + s.ns + ".svc.cluster.local" }

// number is the number of one of its ports; 80 if it has none.
func (g *gen) number(s *service) int {
	if len(s.ports) == 0 {
		return 80
	}
	return pick(g, s.ports...)["port"].(int)
}

// makeServices makes services for the workloads, and some odd ones.
func (g *gen) makeServices() {
	seen := map[string]bool{}
	for _, w := range g.workloads {
		app := w.labels["app"].(string)
		if seen[w.ns+"/"+app] {
			continue
		}
		seen[w.ns+"/"+app] = true
		g.newService(w.ns, app, M{"app": app})
		if g.chance(25) {
			g.newService(w.ns, app+"-all", M{"app": app})
		}
		if g.chance(20) {
			g.newService(w.ns, app+"-"+w.labels["version"].(string), M{"app": app, "version": w.labels["version"]})
		}
	}
	if g.families["services"] {
		g.oddServices()
	}
}

// newService makes a service with its EndpointSlices.
func (g *gen) newService(ns, name string, selector M) *service {
	s := &service{ns: ns, name: g.name(name), selector: selector}
	if _, taken := g.names[ns+"/"+name]; !taken {
		s.name = name
	}
	g.names[ns+"/"+name]++
	s.headless = g.chance(10) || g.families["headless"] && g.chance(50)
	s.ports = g.servicePorts()
	spec := M{"selector": selector, "ports": toList(s.ports), "type": "ClusterIP"}
	annotations := M{}
	if s.headless {
		spec["clusterIP"] = "None"
		spec["clusterIPs"] = L{"None"}
	} else {
		ip := g.vip()
		spec["clusterIP"] = ip
		spec["clusterIPs"] = L{ip}
	}
	if g.families["services"] || g.families["headless"] {
		g.varyService(s, spec, annotations)
	}
	s.object = g.add("v1", "Service", ns, s.name, M{"spec": spec, "labels": M{"app": name}, "annotations": annotations})
	g.services = append(g.services, s)
	g.slices(s)
	return s
}

// varyService sets rarer fields.
func (g *gen) varyService(s *service, spec, annotations M) {
	if g.chance(15) && !s.headless {
		spec["internalTrafficPolicy"] = "Local"
	}
	if g.chance(15) {
		spec["trafficDistribution"] = pick(g, "PreferClose", "PreferSameZone", "PreferSameNode")
	}
	if g.chance(10) {
		annotations["networking.istio.io/traffic-distribution"] = "PreferClose"
	}
	if g.chance(10) {
		annotations["alpha.istio.io/kubernetes-serviceaccounts"] = "extra"
	}
	if g.chance(10) {
		spec["publishNotReadyAddresses"] = true
		s.publish = true
	}
	if g.chance(15) && !s.headless {
		spec["type"] = pick(g, "NodePort", "LoadBalancer")
	}
}

// portMenu lists name, number and further fields of service ports.
func (g *gen) portMenu() []M {
	menu := []M{
		{"name": "http", "port": 80}, {"name": "http-web", "port": 8080}, {"name": "tcp-db", "port": 3306},
		{"name": "grpc-api", "port": 9090}, {"name": "http2", "port": 8080}, {"name": "web", "port": 8080},
		{"name": "tcp", "port": 9000}, {"name": "https", "port": 443}, {"name": "tls-x", "port": 443},
	}
	if !g.families["services"] && !g.families["headless"] {
		return menu
	}
	return append(menu, []M{
		{"name": "redis", "port": 6379}, {"name": "mongo", "port": 27017}, {"name": "mysql", "port": 3306},
		{"name": "db", "port": 27017}, {"name": "smtp", "port": 25}, {"name": "grpc-web", "port": 9091},
		{"name": "upper", "port": 8081, "appProtocol": "HTTP"}, {"name": "httpx", "port": 8082}, {"name": "other", "port": 9000},
		{"name": "any", "port": 8083, "appProtocol": "http"}, {"name": "h2c", "port": 8084, "appProtocol": "kubernetes.io/h2c"},
		{"name": "ws", "port": 8085, "appProtocol": "kubernetes.io/ws"}, {"name": "wss", "port": 8086, "appProtocol": "kubernetes.io/wss"},
		{"name": "http-not", "port": 8087, "appProtocol": "tcp"}, {"name": "empty", "port": 8088, "appProtocol": ""},
		{"name": "odd", "port": 80, "appProtocol": "example.com/odd"}, {"name": "udp-dns", "port": 53, "protocol": "UDP"},
		{"name": "dns", "port": 53}, {"name": "proxy", "port": 3128, "appProtocol": "http_proxy"}, {"name": "web2", "port": 80},
		{"name": "status", "port": 15021}, {"name": "telem", "port": 15090},
	}...)
}

// servicePorts takes one to three ports with different names and numbers.
func (g *gen) servicePorts() []M {
	menu := g.portMenu()
	var out []M
	used := map[any]bool{}
	for i := 0; i < pick(g, 1, 1, 2, 2, 3); i++ {
		p := M{"protocol": "TCP"}
		for k, v := range pick(g, menu...) {
			p[k] = v
		}
		if used[p["name"]] || used[p["port"]] {
			continue
		}
		used[p["name"]], used[p["port"]] = true, true
		switch g.r.Intn(5) {
		case 0:
			p["targetPort"] = pick(g, "p8080", "p9090", "nosuch")
		case 1:
			p["targetPort"] = pick(g, 8080, 9090, 3306)
		default:
			p["targetPort"] = p["port"]
		}
		out = append(out, p)
	}
	if len(out) == 1 && g.chance(10) {
		delete(out[0], "name")
	}
	return out
}

// slices writes the EndpointSlices of a service.
func (g *gen) slices(s *service) {
	groups := map[string]L{}
	ports := map[string]L{}
	for _, w := range g.workloads {
		if w.ns != s.ns || !selects(s.selector, w.labels) {
			continue
		}
		resolved := resolvePorts(s.ports, w.ports)
		k := fmt.Sprint(resolved)
		ports[k] = resolved
		for _, p := range w.pods {
			groups[k] = append(groups[k], endpointOf(w.ns, p, s.publish))
		}
	}
	if len(groups) == 0 {
		groups[""], ports[""] = L{}, L{}
	}
	for i, k := range sortedKeys(groups) {
		g.add("discovery.k8s.io/v1", "EndpointSlice", s.ns, fmt.Sprintf("%s-s%d", s.name, i), M{
			"labels":      M{"kubernetes.io/service-name": s.name, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
			"addressType": "IPv4", "endpoints": groups[k], "ports": ports[k],
		})
	}
}

// endpointOf is a pod's entry in a slice; of a service that publishes
// addresses that are not ready, all are called ready.
func endpointOf(ns string, p *pod, publish bool) M {
	return M{
		"addresses": L{p.ip}, "nodeName": p.node,
		"conditions": M{"ready": p.ready || publish, "serving": p.ready, "terminating": false},
		"targetRef":  M{"kind": "Pod", "name": p.name, "namespace": ns},
	}
}

// selects is whether a selector takes labels.
func selects(selector, labels M) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// resolvePorts turns service ports into a slice's ports; a named port that
// the pod does not have is left out.
func resolvePorts(service, container []M) L {
	var out L
	for _, p := range service {
		number, ok := p["targetPort"].(int)
		if name, named := p["targetPort"].(string); named {
			for _, c := range container {
				if c["name"] == name {
					number, ok = c["containerPort"].(int), true
				}
			}
		}
		if !ok {
			continue
		}
		e := M{"port": number, "protocol": p["protocol"]}
		if p["name"] != nil {
			e["name"] = p["name"]
		} else {
			e["name"] = ""
		}
		if p["appProtocol"] != nil {
			e["appProtocol"] = p["appProtocol"]
		}
		out = append(out, e)
	}
	return out
}

// oddServices makes ExternalName services, services without selector,
// endpoints or ports.
func (g *gen) oddServices() {
	ns := g.anyNamespace()
	target := pick(g, "api.ext-1.example", "example.org")
	if len(g.services) > 0 && g.chance(60) {
		target = pick(g, g.services...).host()
	}
	ext := &service{ns: ns, name: "alias", external: true, ports: []M{{"name": pick(g, "http", "https", "tcp"), "port": pick(g, 80, 443, 9000), "protocol": "TCP"}}}
	ext.object = g.add("v1", "Service", ns, "alias", M{"spec": M{"type": "ExternalName", "externalName": target, "ports": toList(ext.ports)}})
	g.services = append(g.services, ext)
	if g.chance(50) {
		g.add("v1", "Service", g.anyNamespace(), "alias-bare", M{"spec": M{"type": "ExternalName", "externalName": target}})
	}
	bare := &service{ns: g.anyNamespace(), name: "no-selector", ports: g.servicePorts()}
	ip := g.vip()
	bare.object = g.add("v1", "Service", bare.ns, bare.name, M{"spec": M{"clusterIP": ip, "clusterIPs": L{ip}, "ports": toList(bare.ports)}})
	g.services = append(g.services, bare)
	if g.chance(50) {
		var ports L
		for _, p := range bare.ports {
			ports = append(ports, M{"name": str(p["name"]), "port": p["port"], "protocol": p["protocol"]})
		}
		g.add("discovery.k8s.io/v1", "EndpointSlice", bare.ns, "no-selector-manual", M{
			"labels": M{"kubernetes.io/service-name": "no-selector"}, "addressType": "IPv4", "ports": ports,
			"endpoints": L{M{"addresses": L{"192.0.2.10"}}, M{"addresses": L{"192.0.2.11"}, "conditions": M{"ready": true}}},
		})
	}
	empty := g.newService(g.anyNamespace(), "empty", M{"app": "nobody"})
	_ = empty
	if g.chance(50) {
		ns := g.anyNamespace()
		g.add("v1", "Service", ns, "portless", M{"spec": M{"clusterIP": "None", "clusterIPs": L{"None"}, "selector": M{"app": "nobody"}}})
	}
}

// str is a text, or "".
func str(v any) string {
	s, _ := v.(string)
	return s
}
