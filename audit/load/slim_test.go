package load_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Of a running Pod, whatever it holds, a snapshot has the same if only what is read
// of it was decoded as if all was, from JSON and from YAML.
func TestRunningPods(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(0.2).NumElements(0, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("1") },
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(c.Int63n(1<<31), 0) },
		func(v *metav1.MicroTime, c randfill.Continue) {
			*v = metav1.NewMicroTime(time.Unix(c.Int63n(1<<31), 0))
		},
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.Raw = []byte(`{"f:spec":{}}`) },
		func(p *corev1.ContainerPort, c randfill.Continue) {
			c.FillNoCustom(p)
			p.ContainerPort, p.Protocol = 1+c.Int31n(65535), corev1.ProtocolUDP
		},
		func(k *corev1.Container, c randfill.Continue) {
			c.FillNoCustom(k)
			k.Name = "c" + k.Name
		},
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
	)
	proxies := 0
	for i := range 60 {
		var pod corev1.Pod
		filler.Fill(&pod)
		pod.APIVersion, pod.Kind, pod.Name, pod.Namespace, pod.Status.Phase = "v1", "Pod", "web", "shop", corev1.PodRunning
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "app"})
		pod.Labels, pod.Annotations = map[string]string{"app": "web"}, map[string]string{"proxy.istio.io/config": "concurrency: 1"}
		pod.Status.PodIP, pod.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		always := corev1.ContainerRestartPolicyAlways
		switch containers := &pod.Spec.Containers; i % 3 {
		case 0:
			*containers = append(*containers, corev1.Container{Name: "istio-proxy", Args: []string{"proxy", "router"}, Env: []corev1.EnvVar{{Name: "ISTIO_META_NETWORK", Value: "n"}}})
		case 1:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
				Name: "agent", Image: "example.com/proxyv2:1.30.0", RestartPolicy: &always, Ports: []corev1.ContainerPort{{ContainerPort: 15090}},
			})
		}
		text, err := json.Marshal(&pod)
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := yaml.JSONToYAML(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{text, asYAML} {
			files := fstest.MapFS{"pod": {Data: text}}
			slim, err := load.Files(t.Context(), load.Options{Filenames: []string{"pod"}, Tree: files})
			if err != nil {
				t.Fatal(err)
			}
			whole, err := load.Files(t.Context(), load.Options{Filenames: []string{"pod"}, Tree: files, Whole: true})
			if err != nil || len(whole.Objects) != 1 {
				t.Fatalf("%v %v\n%s", err, whole.Diagnostics, text)
			}
			have, want := podOf(t, slim), podOf(t, whole)
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("pod %d\n%s\nread slim\n%+v\nread whole\n%+v", i, text, have, want)
			}
			if want.Proxy != nil {
				proxies++
			}
		}
	}
	if proxies < 80 {
		t.Errorf("%d of 120 pods have a proxy", proxies)
	}
}

// What is wrong with a running Pod is told as it is of any other, but for the inside
// of what is not read.
func TestFaultyRunningPods(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}},` +
		`"spec":{"containers":[{"name":"web","image":"x"}],"priority":1},"status":{"phase":"Running","podIP":"10.0.0.1","hostIP":"10.0.0.9"}}`
	for what, c := range map[string]struct {
		old, changed string
		told         string // with Whole too; empty: nothing is told, nor has to be
	}{
		"as it is":                     {},
		"a list that does not end":     {old: `"priority":1`, changed: `"tolerations":[{"operator":"Exists"},"hostNetwork":true}`, told: "not valid JSON"},
		"no value":                     {old: `"priority":1`, changed: `"priority":tru`, told: "not valid JSON"},
		"a bad escape":                 {old: `"priority":1`, changed: `"schedulerName":"\q"`, told: "not valid JSON"},
		"a raw line's end in a string": {old: `"priority":1`, changed: "\"schedulerName\":\"a\nb\"", told: "not valid JSON"},
		"set twice":                    {old: `"priority":1`, changed: `"priority":1,"priority":1`, told: `"spec.priority" is set twice`},
		"set twice in the status":      {old: `"hostIP":"10.0.0.9"`, changed: `"hostIP":"10.0.0.9","hostIP":"10.0.0.9"`, told: `"status.hostIP" is set twice`},
		"misspelt":                     {old: `"priority":1`, changed: `"hostnetwork":true`, told: `unknown field "spec.hostnetwork"`},
		"misspelt in a container":      {old: `"image"`, changed: `"Ports":[],"image"`, told: `unknown field "spec.containers[0].Ports"`},
		"misspelt in the metadata":     {old: `"labels"`, changed: `"Labels":{},"labels"`, told: `unknown field "metadata.Labels"`},
		"not what is read":             {old: `"image":"x"`, changed: `"image":5`, told: "spec.containers.image: text belongs here"},
	} {
		files := fstest.MapFS{"pod": {Data: []byte(strings.Replace(pod, c.old, c.changed, 1))}}
		for _, whole := range []bool{false, true} {
			r, err := load.Files(t.Context(), load.Options{Filenames: []string{"pod"}, Tree: files, Whole: whole})
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			for _, d := range r.Diagnostics {
				told += d.Text + "\n"
			}
			if (told != "") != (c.told != "") || !strings.Contains(told, c.told) {
				t.Errorf("%s (whole: %v): told %q, want %q", what, whole, told, c.told)
			}
		}
	}
}

func podOf(t *testing.T, r *load.Result) snapshot.Pod {
	t.Helper()
	s := r.Snapshot()
	if len(s.Pods) != 1 {
		t.Fatalf("%d pods, %v", len(s.Pods), r.Diagnostics)
	}
	return s.Pods[0]
}
