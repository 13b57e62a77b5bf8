package verify

import (
	"cmp"
	"maps"
	"slices"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

func (d *Dump) listeners(list []*adminv3.ListenersConfigDump_DynamicListener) error {
	d.actual.add("lds", nil)
	for _, l := range list {
		if failed := l.GetErrorState(); failed != nil {
			d.refused("listener", l.GetName(), failed)
		}
		state := l.GetActiveState()
		switch {
		case state == nil && l.GetWarmingState() != nil:
			d.actual.note("listener %s is warming: Envoy waits for what it refers to", l.GetName())
			state = l.GetWarmingState()
		case state == nil && l.GetDrainingState() != nil:
			d.actual.note("listener %s is draining: it was removed a short while ago", l.GetName())
		}
		if state.GetListener() == nil {
			continue
		}
		if err := d.take("lds", l.GetName(), state.GetListener()); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dump) routes(list []*adminv3.RoutesConfigDump_DynamicRouteConfig) error {
	d.actual.add("rds", nil)
	for _, r := range list {
		if failed := r.GetErrorState(); failed != nil {
			d.refused("route configuration", "", failed)
		}
		if r.GetRouteConfig() == nil {
			continue
		}
		if err := d.take("rds", "", r.GetRouteConfig()); err != nil {
			return err
		}
	}
	return nil
}

// addClusters takes the clusters that are active, and those that still warm up.
func (d *Dump) addClusters(active, warming []*adminv3.ClustersConfigDump_DynamicCluster) error {
	d.clusters = true
	d.actual.add("cds", nil)
	for i, c := range slices.Concat(warming, active) {
		if failed := c.GetErrorState(); failed != nil {
			d.refused("cluster", "", failed)
		}
		if c.GetCluster() == nil {
			continue
		}
		r, refs, err := takeApart("cds", "", c.GetCluster())
		if err != nil {
			return err
		}
		if i < len(warming) {
			d.actual.note("cluster %s is warming: Envoy waits for its endpoints", r.Name)
		}
		for _, name := range refs.endpoints {
			d.edsNames[name] = true
		}
		d.actual.add("cds", r)
	}
	return nil
}

func (d *Dump) endpoints(list []*adminv3.EndpointsConfigDump_DynamicEndpointConfig) error {
	d.actual.add("eds", nil)
	for _, e := range list {
		if e.GetEndpointConfig() == nil {
			continue
		}
		r, _, err := takeApart("eds", "", e.GetEndpointConfig())
		if err != nil {
			return err
		}
		d.assignments[r.Name] = e.GetEndpointConfig()
	}
	return nil
}

func (d *Dump) extensions(list []*adminv3.EcdsConfigDump_EcdsFilterConfig) error {
	d.actual.add("ecds", nil)
	for _, e := range list {
		config := &corev3.TypedExtensionConfig{}
		if e.GetEcdsFilter() == nil || e.GetEcdsFilter().UnmarshalTo(config) != nil {
			continue
		}
		if err := d.take("ecds", config.GetName(), e.GetEcdsFilter()); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dump) take(xdsType, name string, message *anypb.Any) error {
	r, _, err := takeApart(xdsType, name, message)
	if err != nil {
		return err
	}
	d.actual.add(xdsType, r)
	return nil
}

// refused notes an update that Envoy did not accept.
func (d *Dump) refused(what, name string, failed *adminv3.UpdateFailureState) {
	if name != "" {
		what += " " + name
	}
	d.actual.note("Envoy refused an update of %s: %s", what, cmp.Or(failed.GetDetails(), "no details"))
}

// Actual ends the collection.
func (d *Dump) Actual() *Actual {
	a := d.actual
	a.NotTold["nds"] = "the agent has it, not Envoy"
	if a.Types["eds"] == nil {
		a.NotTold["eds"] = "the dump has no endpoints: ask for /config_dump?include_eds"
	}
	for _, name := range slices.Sorted(maps.Keys(d.assignments)) {
		if d.clusters && !d.edsNames[name] {
			continue // of a cluster that resolves by DNS
		}
		r, _, err := takeApart("eds", name, d.assignments[name])
		if err == nil {
			a.add("eds", r)
		}
	}
	return a
}
