package genmesh

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// makeNamespaces makes 3 to 6 namespaces and the root namespace.
func (g *gen) makeNamespaces() {
	all := []string{"shop", "pay", "stock", "edge", "data", "ops"}
	g.namespaces = all[:g.between(3, len(all))]
	for _, ns := range append([]string{system}, g.namespaces...) {
		labels := M{"kubernetes.io/metadata.name": ns}
		if ns != system {
			if g.chance(80) {
				labels["istio-injection"] = "enabled"
			}
			labels["team"] = pick(g, "red", "blue")
		}
		g.labels[ns] = labels
		g.add("v1", "Namespace", "", ns, M{"labels": labels})
	}
}

// makeNodes makes two nodes in different zones.
func (g *gen) makeNodes() {
	for i, zone := range []string{"zone-a", "zone-b"} {
		name := fmt.Sprintf("node-%d", i+1)
		g.nodes = append(g.nodes, name)
		labels := M{"kubernetes.io/hostname": name}
		if g.chance(50) || g.families["topology"] || g.rich {
			labels["topology.kubernetes.io/region"] = "region-1"
			labels["topology.kubernetes.io/zone"] = zone
			if g.chance(50) {
				labels["topology.istio.io/subzone"] = fmt.Sprintf("rack-%d", i)
			}
		}
		g.add("v1", "Node", "", name, M{"labels": labels})
	}
}

// workload is a set of pods with the same labels.
type workload struct {
	ns, name string
	labels   M
	account  string
	ports    []M
	pods     []*pod
	injected bool
	// meta are further ISTIO_META_ variables, annotations of the pods.
	meta, annotations M
	version           string
}

// pod is one pod of a workload.
type pod struct {
	name, ip, ip6, node string
	ready               bool
	revision            string
}

// makeWorkloads makes the pods that services select.
func (g *gen) makeWorkloads() {
	names := []string{"web", "cart", "orders", "ledger", "queue", "search", "mail", "users"}
	for i := range names {
		if g.rich {
			names[i] += "-of-the-customer-facing-part"
		}
	}
	if g.large {
		for i := range 24 {
			names = append(names, fmt.Sprintf("part-%d", i))
		}
	}
	count := g.between(4, 7)
	if g.large {
		count = len(names)
	}
	for _, i := range g.r.Perm(len(names))[:count] {
		ns := g.anyNamespace()
		versions := []string{"v1"}
		if g.chance(40) {
			versions = append(versions, "v2")
		}
		for _, v := range versions {
			g.workloads = append(g.workloads, g.newWorkload(ns, names[i], v))
		}
	}
}

// newWorkload makes a workload with one to three pods.
func (g *gen) newWorkload(ns, app, version string) *workload {
	w := &workload{
		ns: ns, name: app + "-" + version, injected: g.chance(75), meta: M{}, annotations: M{},
		labels:  M{"app": app, "version": version},
		account: pick(g, "default", app), version: report.IstioRelease,
	}
	for _, p := range []int{8080, 9090, 3306}[:g.between(1, 3)] {
		w.ports = append(w.ports, M{"name": fmt.Sprintf("p%d", p), "containerPort": p, "protocol": "TCP"})
	}
	if w.injected {
		w.labels["security.istio.io/tlsMode"] = "istio"
		w.labels["service.istio.io/canonical-name"] = app
		w.labels["service.istio.io/canonical-revision"] = version
	}
	for i := 0; i < pick(g, 1, 1, 1, 2, 3); i++ {
		w.pods = append(w.pods, &pod{
			name: fmt.Sprintf("%s-%d", w.name, i), ip: g.ip(), node: pick(g, g.nodes...), ready: g.chance(90),
		})
	}
	if g.families["proxies"] {
		g.varyProxy(w)
	}
	return w
}

// varyProxy changes what the workload's proxies tell of themselves.
func (g *gen) varyProxy(w *workload) {
	switch g.r.Intn(8) {
	case 0:
		w.meta["INTERCEPTION_MODE"] = "NONE"
		w.annotations["sidecar.istio.io/interceptionMode"] = "NONE"
	case 1:
		w.meta["INTERCEPTION_MODE"] = "TPROXY"
		w.annotations["sidecar.istio.io/interceptionMode"] = "TPROXY"
	case 2:
		w.meta["DNS_CAPTURE"] = "true"
	case 3:
		w.annotations["proxy.istio.io/config"] = "proxyMetadata:\n  ISTIO_META_DNS_CAPTURE: \"true\"\nstatusPort: 15020\n"
	case 4:
		w.meta["HTTP10"] = "1"
		w.meta["IDLE_TIMEOUT"] = "30s"
	case 5:
		w.version = pick(g, "1.30.3", "1.29.1", "1.24.6")
	case 6:
		for i, p := range w.pods {
			p.ip6 = fmt.Sprintf("fd00:20::%x%x", i+1, g.podCount)
		}
	case 7:
		w.meta["HTTP_PROXY_PORT"] = "15007"
		w.annotations["sidecar.istio.io/statsInclusionPrefixes"] = "cluster.outbound"
	}
}

// makePods writes the pods of all workloads and gateways.
func (g *gen) makePods() {
	for _, w := range g.workloads {
		for _, p := range w.pods {
			g.writePod(w, p, "sidecar")
		}
	}
	for _, gw := range g.gateways {
		for _, p := range gw.pods {
			g.writePod(&gw.workload, p, "router")
		}
	}
}

// writePod writes one pod, with a proxy as injection makes it.
func (g *gen) writePod(w *workload, p *pod, kind string) {
	var containers L
	if kind == "sidecar" {
		containers = append(containers, M{"name": "app", "image": "registry.example/app:1", "ports": toList(w.ports)})
	}
	annotations := M{}
	for k, v := range w.annotations {
		annotations[k] = v
	}
	if w.injected {
		annotations["istio.io/rev"] = pick(g, "default", "default")
		if p.revision != "" {
			annotations["istio.io/rev"] = p.revision
		}
		containers = append(containers, g.proxyContainer(w, p, kind))
	}
	ips := L{M{"ip": p.ip}}
	if p.ip6 != "" {
		ips = append(ips, M{"ip": p.ip6})
	}
	status := "True"
	if !p.ready {
		status = "False"
	}
	g.add("v1", "Pod", w.ns, p.name, M{
		"labels": w.labels, "annotations": annotations,
		"spec": M{"serviceAccountName": w.account, "nodeName": p.node, "containers": containers},
		"status": M{
			"phase": "Running", "podIP": p.ip, "podIPs": ips,
			"conditions": L{M{"type": "Ready", "status": status}},
		},
	})
}

// proxyContainer is the istio-proxy container of a pod.
func (g *gen) proxyContainer(w *workload, p *pod, kind string) M {
	ports, _ := json.Marshal(w.ports)
	env := M{
		"POD_NAME": p.name, "POD_NAMESPACE": w.ns, "INSTANCE_IP": p.ip, "SERVICE_ACCOUNT": w.account,
		"PROXY_CONFIG": "{}\n", "ISTIO_META_POD_PORTS": string(ports), "ISTIO_META_CLUSTER_ID": "Kubernetes",
		"ISTIO_META_NODE_NAME": p.node, "ISTIO_META_INTERCEPTION_MODE": "REDIRECT",
		"ISTIO_META_WORKLOAD_NAME": w.name, "ISTIO_META_MESH_ID": "cluster.local", "TRUST_DOMAIN": "cluster.local",
		"ISTIO_META_OWNER": fmt.Sprintf("kubernetes://apis/apps/v1/namespaces/%s/deployments/%s", w.ns, w.name),
	}
	if kind == "sidecar" {
		env["ISTIO_META_APP_CONTAINERS"] = "app"
	}
	for k, v := range w.meta {
		env["ISTIO_META_"+k] = v
	}
	c := M{
		"name": "istio-proxy", "image": "docker.io/istio/proxyv2:" + w.version, "env": envList(env),
		"args": L{"proxy", kind, "--domain", "$(POD_NAMESPACE).svc.cluster.local"},
	}
	if kind == "router" {
		c["ports"] = toList(w.ports)
	}
	return c
}

// envList writes variables in a fixed order.
func envList(env M) L {
	var out L
	for _, k := range sortedKeys(env) {
		out = append(out, M{"name": k, "value": env[k]})
	}
	return out
}

// toList converts a list of objects.
func toList(list []M) L {
	var out L
	for _, m := range list {
		out = append(out, m)
	}
	return out
}

// makeControlPlane writes istiod and its configuration, for each revision.
func (g *gen) makeControlPlane() {
	for i, rev := range g.revisions {
		suffix := ""
		if rev != "default" {
			suffix = "-" + rev
		}
		config := g.mesh
		if i > 0 {
			config = M{"rootNamespace": system, "trustDomain": "cluster.local", "outboundTrafficPolicy": M{"mode": "REGISTRY_ONLY"}}
		}
		mesh, _ := yaml.Marshal(config)
		data := M{"mesh": string(mesh)}
		if len(g.networks) > 0 {
			networks, _ := yaml.Marshal(M{"networks": g.networks})
			data["meshNetworks"] = string(networks)
		}
		g.add("v1", "ConfigMap", system, "istio"+suffix, M{"labels": M{"istio.io/rev": rev}, "data": data})
		env := M{"REVISION": rev, "POD_NAMESPACE": system, "CLUSTER_ID": "Kubernetes"}
		for k, v := range g.istiodEnv {
			env[k] = v
		}
		labels := M{"app": "istiod", "istio.io/rev": rev}
		g.add("apps/v1", "Deployment", system, "istiod"+suffix, M{"labels": labels, "spec": M{
			"replicas": 1, "selector": M{"matchLabels": labels},
			"template": M{"metadata": M{"labels": labels}, "spec": M{"serviceAccountName": "istiod", "containers": L{M{
				"name": "discovery", "image": "docker.io/istio/pilot:" + report.IstioRelease, "args": L{"discovery"}, "env": envList(env),
			}}}},
		}})
	}
}
