package diff

import (
	"encoding/json"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// endpointObjects are what the endpoints of the change's services are made
// from: their EndpointSlices; where those are assumed, the workloads whose pods
// the service selects; WorkloadEntries of the service's namespace likewise.
func (c *comparer) endpointObjects(_ *pairView, f *found) []object {
	var out []object
	for _, s := range c.serviceEvidence(nil, f) {
		assumed := c.inputs.completed[s]
		out = append(out, c.makers().slices[s]...)
		for _, o := range c.makers().others[s.namespace] {
			isWorkload := workloadKinds[o.kind]
			if o.kind == "WorkloadEntry" || assumed == isWorkload && (!isWorkload || c.selects(s, o)) {
				out = append(out, o)
			}
		}
		out = append(out, s)
	}
	return out
}

// endpointMakers are the changed inputs that endpoints are made from.
type endpointMakers struct {
	slices map[object][]object // by the Service
	others map[string][]object // WorkloadEntries, Pods and workloads by namespace
}

func (c *comparer) makers() *endpointMakers {
	if c.inputs.makers != nil {
		return c.inputs.makers
	}
	m := &endpointMakers{map[object][]object{}, map[string][]object{}}
	for o, i := range c.inputs.byObject {
		switch {
		case o.kind == "EndpointSlice" || o.kind == "Endpoints":
			service := c.sliceOf(&c.out.Inputs[i])
			m.slices[service] = append(m.slices[service], o)
		case o.kind == "WorkloadEntry" || o.kind == "Pod" || workloadKinds[o.kind]:
			m.others[o.namespace] = append(m.others[o.namespace], o)
		}
	}
	c.inputs.makers = m
	return m
}

// selection is what a Service's selector and a workload's pods are known by.
type selection struct {
	Spec     struct{ Selector map[string]string }
	Template struct{ Labels map[string]string }
}

// selections are those of an object on the sides that tell its content.
func (c *comparer) selections(o object) []selection {
	if known, ok := c.inputs.selections[o]; ok {
		return known
	}
	var out []selection
	for _, s := range []*side{c.base, c.head} {
		var one selection
		if is := s.object(o); is != nil && len(is.Content) > 0 && json.Unmarshal(is.Content, &one) == nil {
			out = append(out, one)
		}
	}
	c.inputs.selections[o] = out
	return out
}

// selects reports whether a Service selects the pods of a workload on either
// side; where one of them does not tell, that is possible.
func (c *comparer) selects(service, workload object) bool {
	selectors, templates := c.selections(service), c.selections(workload)
	if len(selectors) == 0 || len(templates) == 0 {
		return true
	}
	for _, s := range selectors {
		for _, t := range templates {
			if within(s.Spec.Selector, t.Template.Labels) {
				return true
			}
		}
	}
	return false
}

func within(selector, labels map[string]string) bool {
	for key, value := range selector {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return len(selector) > 0
}

// sliceOf is the Service that a changed EndpointSlice belongs to.
func (c *comparer) sliceOf(in *result.Input) object {
	for _, s := range []*side{c.head, c.base} {
		if slice := s.object(objectOf(in.Ref())); slice != nil {
			return objectOf(slice.Owner)
		}
	}
	return object{}
}
