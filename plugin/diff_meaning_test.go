package plugin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/plugin"
)

// edit makes a mesh of another: each replacement has to be found.
type edit struct {
	replace []string // old, new, …
	drop    string   // "Kind namespace/name"
	add     string
}

func (e edit) of(t *testing.T, mesh string) string {
	t.Helper()
	for i := 0; i < len(e.replace); i += 2 {
		if !strings.Contains(mesh, e.replace[i]) {
			t.Fatalf("the mesh has no %q", e.replace[i])
		}
		mesh = strings.ReplaceAll(mesh, e.replace[i], e.replace[i+1])
	}
	docs := strings.Split(mesh, "\n---\n")
	if kind, object, ok := strings.Cut(e.drop, " "); ok {
		namespace, name, _ := strings.Cut(object, "/")
		left := slices.DeleteFunc(slices.Clone(docs), func(d string) bool {
			return strings.Contains(d, "kind: "+kind+"\n") && strings.Contains(d, "  name: "+name+"\n  namespace: "+namespace+"\n")
		})
		if len(left) != len(docs)-1 {
			t.Fatalf("%d objects are %s", len(docs)-len(left), e.drop)
		}
		docs = left
	}
	if e.add != "" {
		docs = append(docs, e.add)
	}
	return strings.Join(docs, "\n---\n")
}

// ratingsPort names the port of the service ratings.
func ratingsPort(name string) edit {
	const ratings = "    app: ratings\n  ports:\n  - name: "
	return edit{replace: []string{ratings + "http\n", ratings + name + "\n"}}
}

const (
	strictMesh = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n"
	emptyV7    = "  - name: v3\n    labels: {version: v3}\n  - name: v7\n    labels: {version: v7}\n"
	subsetV3   = "  - name: v3\n    labels: {version: v3}\n"
	routeV3    = "    - destination: {host: reviews, subset: v3}\n      weight: 20\n"
	reviewsDR  = "  host: reviews\n  subsets:\n"
	firstRoute = "  http:\n  - route:\n    - destination: {host: reviews, subset: v1}\n"
)

// notExported hides the service library from other namespaces.
var notExported = []string{"  name: library\n  namespace: partners\n", "  name: library\n  namespace: partners\n  annotations: {networking.istio.io/exportTo: \".\"}\n"}

// TestDiffMeaning: what a change means for callers, by what Envoy does with a
// missing cluster (503 NC), one without endpoints (503 UH), a fault, denied
// requests and plaintext to a server that demands mTLS; and whether
// --fail-on lost trips.
func TestDiffMeaning(t *testing.T) {
	for name, c := range map[string]struct {
		base, head edit
		lost       bool
		want       []string // expressions of the text without line breaks
		not        []string
	}{
		"a route to a subset that is not there": {
			head: edit{replace: []string{"subset: v3}", "subset: v9}"}}, lost: true,
			want: []string{
				`^7 of 8 proxies change, 7 lose something that callers notice; istiod total unchanged `,
				`LOST 7 proxies: .* because VirtualService books/reviews \(\S+:297\) changed: spec\.http\[0\]\.route\[1\]\.destination\.subset: v3 → v9 callers see 503 NC for what is led to outbound\|9080\|v9\|reviews\.books\.svc\.cluster\.local: the service has no subset v9 - virtual host reviews`,
			},
		},
		"to a host that is not there": {
			head: edit{replace: []string{"{host: reviews, subset: v3}", "{host: nowhere}"}}, lost: true,
			want: []string{`callers see 503 NC for what is led to outbound\|9080\|\|nowhere\.books\.svc\.cluster\.local: no service of the name is in this proxy's scope`},
		},
		"to a service that is not exported": {
			base: edit{replace: notExported},
			head: edit{replace: append(slices.Clone(notExported), "{host: reviews, subset: v3}", "{host: library.partners.svc.cluster.local, port: {number: 8080}}")}, lost: true,
			want: []string{`callers see 503 NC for what is led to outbound\|8080\|\|library\.partners\.svc\.cluster\.local: the service is not in this proxy's scope`},
		},
		"to a port that is not there": {
			head: edit{replace: []string{"{host: reviews, subset: v3}", "{host: reviews, port: {number: 9999}}"}}, lost: true,
			want: []string{`callers see 503 NC for what is led to outbound\|9999\|\|reviews\.\S+: the service has no port 9999`},
		},
		"to a subset without pods": {
			base: edit{replace: []string{subsetV3, emptyV7}},
			head: edit{replace: []string{subsetV3, emptyV7, "subset: v3}", "subset: v7}"}}, lost: true,
			want: []string{`callers see 503 UH for what is led to outbound\|9080\|v7\|reviews\.\S+: it has no endpoint`},
		},
		"from one that was not there to another": {
			base: edit{replace: []string{"subset: v3}", "subset: v9}"}},
			head: edit{replace: []string{"subset: v3}", "subset: v8}"}},
			want: []string{"none loses anything"}, not: []string{"LOST", "503"},
		},
		"back from one that was not there": {
			base: edit{replace: []string{"subset: v3}", "subset: v9}"}},
			want: []string{"none loses anything", `GAINED 7 proxies: .* \+ virtual host reviews`}, not: []string{"LOST", "503"},
		},
		"a subset renamed in the rule alone": {
			head: edit{replace: []string{subsetV3, "  - name: v4\n    labels: {version: v3}\n"}}, lost: true,
			want: []string{`spec\.subsets\[1\]\.name: v3 → v4 callers see 503 NC`},
		},
		"a subset that its route left first": {
			head: edit{replace: []string{routeV3, "", subsetV3, ""}},
			want: []string{`8 lose only what is unused or served otherwise`, `LOST, BUT UNUSED OR SERVED OTHERWISE 8 proxies`},
			not:  []string{"callers see"},
		},
		"a workload removed": {
			head: edit{drop: "Deployment books/ratings-v1"}, lost: true,
			want: []string{
				`6 lose something that callers notice.*; 1 proxy gone \(all of 1 workload\);`,
				`callers see 503 UH \(no endpoint\) - load assignment outbound\|9080\|\|ratings\S+: 1 -> 0 endpoints`,
				`GONE - 1 proxy of books/ratings-v1 \(\S+ kB\), because Deployment books/ratings-v1 \(\S+\) removed`,
			},
		},
		"a workload added": {
			base: edit{drop: "Deployment books/ratings-v1"},
			want: []string{`none loses anything.*; 1 proxy new;`, `NEW \+ 1 proxy of books/ratings-v1 .*because Deployment books/ratings-v1 \(\S+\) added`},
		},
		"a workload taken out of the mesh": {
			head: edit{replace: []string{"labels: {app: ratings, version: v1}\n    spec", "labels: {app: ratings, version: v1, sidecar.istio.io/inject: \"false\"}\n    spec"}}, lost: true,
			want: []string{`GONE - 1 proxy of books/ratings-v1 .*, because Deployment books/ratings-v1 \(\S+\) changed`, `spec\.template\.metadata\.labels\["sidecar\.istio\.io/inject"\]: unset → false`}, not: []string{"LOST"},
		},
		"fewer replicas": {
			base: edit{replace: []string{"  name: ratings-v1\n  namespace: books\nspec:\n", "  name: ratings-v1\n  namespace: books\nspec:\n  replicas: 3\n"}},
			want: []string{`GONE - 2 proxies of books/ratings-v1 \(\S+ kB each\), beside 1 that both sides have`, `3 -> 1 endpoint `}, not: []string{"LOST"},
		},
		"another image": {
			head: edit{replace: []string{"example/ratings:v1", "example/ratings:v2"}},
			want: []string{`^no difference for 8 proxies CHANGED INPUT THAT NO PROXY NOTICES Deployment books/ratings-v1 \(\S+\) changed `}, not: []string{"Pod"},
		},
		"a Service removed": {
			head: edit{drop: "Service books/ratings"}, lost: true,
			want: []string{`callers see NXDOMAIN for ratings\.books\.svc\.cluster\.local: no Service of the name any more; by address: 502 by outboundTrafficPolicy`},
		},
		"a policy that allows nothing": {
			head: edit{add: "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: nothing, namespace: books}\nspec: {}\n"}, lost: true,
			want: []string{`LOST 6 proxies: .* because AuthorizationPolicy books/nothing \(\S+\) added callers see 403 \(RBAC: access denied\)`},
		},
		"a policy that allows something": {
			head: edit{add: "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: some, namespace: books}\nspec: {rules: [{to: [{operation: {methods: [GET]}}]}]}\n"},
			want: []string{"none loses anything"}, not: []string{"403", "RBAC"},
		},
		"a policy that allows some HTTP, on a TCP port": {
			base: ratingsPort("tcp"),
			head: edit{replace: ratingsPort("tcp").replace, add: "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: some, namespace: books}\nspec: {rules: [{to: [{operation: {methods: [GET]}}]}]}\n"}, lost: true,
			want: []string{`LOST 1 proxy: books/ratings-v1 .*callers see connection closed \(RBAC: access denied\) - filter chain "dst:\*:9080`},
		},
		"plaintext to a STRICT service": {
			base: edit{add: strictMesh},
			head: edit{add: strictMesh, replace: []string{reviewsDR, "  host: reviews\n  trafficPolicy: {tls: {mode: DISABLE}}\n  subsets:\n"}}, lost: true,
			want: []string{`spec\.trafficPolicy\.tls\.mode: unset → DISABLE callers see connection reset, 503 UC for HTTP: plaintext to a service that demands STRICT mTLS - cluster outbound\|9080\|v1`},
		},
		"plaintext to a PERMISSIVE service": {
			head: edit{replace: []string{reviewsDR, "  host: reviews\n  trafficPolicy: {tls: {mode: DISABLE}}\n  subsets:\n"}},
			want: []string{"none loses anything", `spec\.trafficPolicy\.tls\.mode: unset → DISABLE`}, not: []string{"reset"},
		},
		"a fault for every request": {
			head: edit{replace: []string{firstRoute, strings.Replace(firstRoute, "- route", "- fault: {abort: {httpStatus: 418, percentage: {value: 100}}}\n    route", 1)}}, lost: true,
			want: []string{`spec\.http\[0\]\.fault\.abort\.httpStatus: unset → 418; spec\.http\[0\]\.fault\.abort\.percentage\.value: unset → 100 callers see 418 FI \(fault injected\) for /\*`},
		},
		"a fault for some requests": {
			head: edit{replace: []string{firstRoute, strings.Replace(firstRoute, "- route", "- fault: {abort: {httpStatus: 418, percentage: {value: 99}}}\n    route", 1)}},
			want: []string{"none loses anything"}, not: []string{"FI"},
		},
		"a fault for requests with a header": {
			head: edit{replace: []string{firstRoute, strings.Replace(firstRoute, "- route", "- fault: {abort: {httpStatus: 418, percentage: {value: 100}}}\n    match: [{headers: {x-test: {exact: a}}}]\n    route", 1)}},
			want: []string{"none loses anything"}, not: []string{"FI"},
		},
		"weights": {
			head: edit{replace: []string{"weight: 80", "weight: 70", "weight: 20", "weight: 30"}},
			want: []string{`because VirtualService books/reviews \(\S+\) changed: spec\.http\[0\]\.route\[0\]\.weight: 80 → 70; spec\.http\[0\]\.route\[1\]\.weight: 20 → 30 ~`},
		},
		"a TCP port that becomes HTTP": {
			base: ratingsPort("tcp"),
			want: []string{`callers see listener 0\.0\.0\.0_9080 instead, as HTTP; what is not HTTP: connection closed by outboundTrafficPolicy`}, not: []string{"reset"},
		},
		"a sniffed port that becomes HTTP": {
			base: ratingsPort("web"),
			want: []string{`callers see listener 0\.0\.0\.0_9080 instead - route configuration ratings`}, not: []string{"reset", "LOST 7"},
		},
		"an HTTP port that becomes TCP": {
			head: ratingsPort("tcp"), lost: true,
			want: []string{`callers see listener 10\.96\.0\.3_9080 instead: as plain TCP, without HTTP routes`},
		},
		"STRICT mTLS": {
			head: edit{add: strictMesh}, lost: true,
			want: []string{`LOST 6 proxies: .* callers see connection reset for plaintext callers \(STRICT mTLS\)`},
		},
		"a domain of a virtual host": {
			head: edit{replace: []string{", www.example.com", ""}}, lost: true,
			want: []string{`1 of 8 proxies changes, 1 loses something that callers notice`, `LOST 1 proxy: edge/gateway because .*spec\.hosts\[1\]: www\.example\.com → unset callers see 404 NR - virtual host books`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../testdata/diff/bookinfo/base.yaml")
			if err != nil {
				t.Fatal(err)
			}
			base, head := writeMesh(t, []string{c.base.of(t, string(text))}), writeMesh(t, []string{c.head.of(t, string(text))})
			status, out, errs := run(t, "diff", "--base", base, "--head", head, "--fail-on", "lost")
			want := plugin.ExitOK
			if c.lost {
				want = plugin.ExitYes
			}
			if status != want {
				t.Errorf("--fail-on lost: exit status %d, want %d\n%s", status, want, errs)
			}
			line := strings.Join(strings.Fields(strings.ReplaceAll(out, filepath.Dir(head), "")), " ")
			for _, w := range c.want {
				if !regexp.MustCompile(w).MatchString(line) {
					t.Errorf("no %s in\n%s", w, out)
				}
			}
			for _, n := range c.not {
				if regexp.MustCompile(n).MatchString(line) {
					t.Errorf("%s in\n%s", n, out)
				}
			}
			oneOnly(t, out)
			there, back := diffJSON(t, statusOf(t, base, head), "--base", base, "--head", head), diffJSON(t, statusOf(t, head, base), "--base", head, "--head", base)
			if x, y := outline(there, false), outline(back, true); !slices.Equal(x, y) {
				t.Errorf("there\n%s\nback\n%s", strings.Join(x, "\n"), strings.Join(y, "\n"))
			}
			mirrored(t, there, back)
		})
	}
}

func statusOf(t *testing.T, base, head string) int {
	t.Helper()
	status, _, _ := run(t, "diff", "--base", base, "--head", head, "-o", "json")
	return status
}

// oneOnly checks that no line that tells of a change stands twice in a section.
func oneOnly(t *testing.T, out string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, " ") {
			clear(seen)
		}
		if told := strings.TrimLeft(line, " "); strings.IndexAny(told, "-+~>") == 0 && strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "      ") {
			if seen[told] {
				t.Errorf("twice: %s", told)
			}
			seen[told] = true
		}
	}
}

// mirrored checks that what fails one way recovers the other way, and that gone
// proxies are new.
func mirrored(t *testing.T, there, back *result.Diff) {
	t.Helper()
	tell := func(d *result.Diff, of func(*result.Change) []string) []string {
		var out []string
		for i := range d.Changes {
			out = append(out, of(&d.Changes[i])...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	fails := func(c *result.Change) []string { return c.Fails }
	recovers := func(c *result.Change) []string { return c.Recovers }
	if x, y := tell(there, fails), tell(back, recovers); !slices.Equal(x, y) {
		t.Errorf("fails %q, back recovers %q", x, y)
	}
	if x, y := tell(there, recovers), tell(back, fails); !slices.Equal(x, y) {
		t.Errorf("recovers %q, back fails %q", x, y)
	}
	if len(there.Gone) != len(back.New) || len(there.New) != len(back.Gone) {
		t.Errorf("%d gone, %d new; back %d, %d", len(there.Gone), len(there.New), len(back.Gone), len(back.New))
	}
}

// TestDiffTemplate: a workload's changed template on a live mesh is one changed
// input, not one for each Pod, ReplicaSet and slice of it.
func TestDiffTemplate(t *testing.T) {
	deployment := func(labels string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec:\n  replicas: 2\n" +
			"  selector: {matchLabels: {app: api}}\n  template: {metadata: {labels: " + labels + "}, spec: {containers: [{name: app, image: api}]}}\n"
	}
	pod := func(name, ip string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\n  generateName: api-abc-\n  namespace: shop\n" +
			"  labels: {app: api, pod-template-hash: abc, security.istio.io/tlsMode: istio}\n" +
			"  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: api-abc, uid: x, controller: true}]\n" +
			"spec: {containers: [{name: app, image: api}, {name: istio-proxy, image: 'istio/proxyv2:1.31.0', args: [proxy, sidecar]}]}\n" +
			"status: {phase: Running, podIP: " + ip + ", podIPs: [{ip: " + ip + "}], conditions: [{type: Ready, status: 'True'}]}\n"
	}
	mesh := writeMesh(t, []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio-injection: enabled}}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: shop}\nspec: {selector: {app: api}, clusterIP: 10.96.1.1, ports: [{name: http, port: 80}]}\n",
		deployment("{app: api}"), pod("api-abc-0", "10.0.0.1"), pod("api-abc-1", "10.0.0.2"),
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: api-x, namespace: shop, labels: {kubernetes.io/service-name: api}}\n" +
			"addressType: IPv4\nports: [{name: http, port: 80, protocol: TCP}]\nendpoints:\n- {addresses: [10.0.0.1], targetRef: {kind: Pod, namespace: shop, name: api-abc-0}}\n" +
			"- {addresses: [10.0.0.2], targetRef: {kind: Pod, namespace: shop, name: api-abc-1}}\n",
	})
	base, head := writeMesh(t, []string{deployment("{app: api}")}), writeMesh(t, []string{deployment("{app: api, version: v2}")})
	d := diffJSON(t, plugin.ExitYes, "--on", mesh, "--base", base, "--head", head)
	if len(d.Inputs) != 1 || d.Inputs[0].Head.Kind != "Deployment" || len(d.Inputs[0].Fields) != 1 || d.Inputs[0].Fields[0].Path != "spec.template.metadata.labels.version" {
		t.Errorf("inputs %+v", d.Inputs)
	}
	if s := d.Summary; s.Proxies != 2 || s.Added+s.Removed+s.Lose != 0 {
		t.Errorf("%+v", s)
	}
}
