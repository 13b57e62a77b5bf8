package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Objects lists every object that was read, with a digest of what the model
// reads of it: wherever an object comes from, the digest is the same as long as
// nothing changed that could matter. With contents, what the model reads goes
// with it for the kinds that people write, mesh config and istiod excepted.
// Sorted by kind, namespace and name.
func (s *Snapshot) Objects(contents bool) ([]result.Object, error) {
	d := digester{contents: contents}
	for i := range s.Namespaces {
		if n := &s.Namespaces[i]; !n.Implied {
			d.keep(&n.Meta, n)
		}
	}
	istiods := map[string]bool{}
	for i := range s.Istiods {
		istiods[s.Istiods[i].Namespace+"/"+s.Istiods[i].Name] = true
		d.add(&s.Istiods[i].Meta, &s.Istiods[i])
	}
	for i := range s.Workloads {
		if w := &s.Workloads[i]; w.Kind != "Deployment" || !istiods[w.Namespace+"/"+w.Name] {
			d.keep(&w.Meta, w)
			if w.Owner.Kind != "" {
				d.last().Owner = result.Ref{Kind: w.Owner.Kind, Namespace: w.Namespace, Name: w.Owner.Name}
			}
		}
	}
	for i := range s.Nodes {
		d.add(&s.Nodes[i].Meta, &s.Nodes[i])
	}
	for i := range s.Slices {
		d.add(&s.Slices[i].Meta, &s.Slices[i])
		d.last().Assumed = s.Slices[i].Assumed
		if service := s.Slices[i].Service; service != "" {
			d.last().Owner = result.Ref{Kind: "Service", Namespace: s.Slices[i].Namespace, Name: service}
		}
	}
	for i := range s.Pods {
		d.add(&s.Pods[i].Meta, &s.Pods[i])
		d.last().Assumed = s.Pods[i].Assumed
		if owner := s.Pods[i].Owner; owner.Kind != "" {
			d.last().Owner = result.Ref{Kind: owner.Kind, Namespace: s.Pods[i].Namespace, Name: owner.Name}
		}
	}
	for i := range s.ConfigMaps {
		d.add(&s.ConfigMaps[i].Meta, &s.ConfigMaps[i])
	}
	for i := range s.Webhooks {
		d.add(&s.Webhooks[i].Meta, &s.Webhooks[i])
	}
	for i := range s.ServiceEntries {
		keepConfig(&d, &s.ServiceEntries[i].Config, &s.ServiceEntries[i])
	}
	for i := range s.EnvoyFilters {
		keepConfig(&d, &s.EnvoyFilters[i].Config, &s.EnvoyFilters[i])
	}
	for i := range s.Unmodelled {
		d.add(&s.Unmodelled[i], &s.Unmodelled[i])
	}
	digestConfigs(&d, s.Services)
	digestConfigs(&d, s.WorkloadEntries)
	digestConfigs(&d, s.WorkloadGroups)
	digestConfigs(&d, s.DestinationRules)
	digestConfigs(&d, s.VirtualServices)
	digestConfigs(&d, s.Gateways)
	digestConfigs(&d, s.Sidecars)
	digestConfigs(&d, s.ProxyConfigs)
	digestConfigs(&d, s.PeerAuthentications)
	digestConfigs(&d, s.RequestAuthentications)
	digestConfigs(&d, s.AuthorizationPolicies)
	digestConfigs(&d, s.Telemetries)
	digestConfigs(&d, s.WasmPlugins)
	slices.SortStableFunc(d.objects, func(a, b result.Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return d.objects, d.err
}

type digester struct {
	contents bool
	objects  []result.Object
	err      error // the first
}

// add digests a row; where it was read from is not part of its JSON.
func (d *digester) add(meta *Meta, row any) (encoded json.RawMessage) {
	text, err := json.Marshal(row)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s %s/%s has no digest: %w", meta.Kind, meta.Namespace, meta.Name, err)
	}
	sum := sha256.Sum256(text)
	d.objects = append(d.objects, result.Object{
		Ref: meta.Ref(), Digest: hex.EncodeToString(sum[:8]), Assumed: meta.Annotations[AssumedAnnotation] == "true",
	})
	return text
}

// keep adds a row whose content is told.
func (d *digester) keep(meta *Meta, row any) {
	if text := d.add(meta, row); d.contents {
		d.last().Content = text
	}
}

// keepConfig adds a configuration whose content is told.
func keepConfig[S any](d *digester, c *Config[S], row any) {
	spec, isMessage := any(c.Spec).(proto.Message)
	if !isMessage || !d.contents {
		d.keep(&c.Meta, row)
		return
	}
	d.add(&c.Meta, row)
	text, err := contentOf(&c.Meta, spec)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s %s/%s has no content: %w", c.Kind, c.Namespace, c.Name, err)
	}
	d.last().Content = text
}

// last is the object that was added last.
func (d *digester) last() *result.Object { return &d.objects[len(d.objects)-1] }

func digestConfigs[S any](d *digester, list []Config[S]) {
	for i := range list {
		keepConfig(d, &list[i], &list[i])
	}
}
