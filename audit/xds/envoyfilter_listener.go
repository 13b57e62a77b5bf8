package xds

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// patchesListeners reports patches that may change a listener.
func patchesListeners(e *envoyPatches, context networking.EnvoyFilter_PatchContext) bool {
	for _, kind := range []networking.EnvoyFilter_ApplyTo{
		networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_LISTENER_FILTER, networking.EnvoyFilter_FILTER_CHAIN,
		networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER,
	} {
		if slices.ContainsFunc(e.of(kind), func(p *envoyPatch) bool { return p.in(context) }) {
			return true
		}
	}
	return false
}

// listenerPatcher applies EnvoyFilter patches to one listener (Istio
// pilot/pkg/networking/core/envoyfilter/listener_patch.go).
type listenerPatcher struct {
	*Builder
	patches *envoyPatches
	context networking.EnvoyFilter_PatchContext
	l       *listenerv3.Listener
	origins map[*listenerv3.FilterChain]chainOrigin
}

// patchListener applies the patches of a context to a listener. It returns a
// copy where it changes anything, with the origins of its chains; nil: removed.
func (b *Builder) patchListener(l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin, e *envoyPatches,
	context networking.EnvoyFilter_PatchContext,
) (*listenerv3.Listener, map[*listenerv3.FilterChain]chainOrigin) {
	if !patchesListeners(e, context) {
		return l, origins
	}
	c := &listenerPatcher{Builder: b, patches: e, context: context, l: proto.CloneOf(l), origins: map[*listenerv3.FilterChain]chainOrigin{}}
	for i, fc := range l.FilterChains {
		c.origins[c.l.FilterChains[i]] = origins[fc]
	}
	if l.DefaultFilterChain != nil {
		c.origins[c.l.DefaultFilterChain] = origins[l.DefaultFilterChain]
	}
	for _, p := range e.of(networking.EnvoyFilter_LISTENER) {
		switch {
		case !c.matches(p):
		case p.Operation == networking.EnvoyFilter_Patch_REMOVE:
			b.rec.Excluded(l.Name, result.Reason{Rule: "LDS-14", Object: p.Filter.Ref(), Field: p.field(), Text: "an EnvoyFilter removes the listener"})
			return nil, nil
		case p.merges():
			b.mergePatch(c.l, p)
		}
	}
	c.patchListenerFilters()
	c.patchChains()
	return c.l, c.origins
}

// addedListener is a listener that an ADD patch makes.
type addedListener struct {
	patch    *envoyPatch
	listener *listenerv3.Listener
}

// addedListeners are the listeners that ADD patches make in a context. A patch
// for any context adds to outbound and gateway listeners only.
func (b *Builder) addedListeners(e *envoyPatches, context networking.EnvoyFilter_PatchContext) []addedListener {
	var out []addedListener
	for _, p := range e.of(networking.EnvoyFilter_LISTENER) {
		if p.Operation != networking.EnvoyFilter_Patch_ADD || !p.in(context) ||
			p.Match.GetContext() == networking.EnvoyFilter_ANY && context == networking.EnvoyFilter_SIDECAR_INBOUND {
			continue
		}
		if l, ok := b.patchValue(p).(*listenerv3.Listener); ok && l.GetName() != "" {
			out = append(out, addedListener{p, l})
		}
	}
	return out
}

func (a addedListener) reason() result.Reason {
	return result.Reason{Rule: "LDS-14", Object: a.patch.Filter.Ref(), Field: a.patch.field(), Text: "an EnvoyFilter adds the listener"}
}

// origins says that all chains come from the EnvoyFilter.
func (a addedListener) origins() map[*listenerv3.FilterChain]chainOrigin {
	out := map[*listenerv3.FilterChain]chainOrigin{}
	for _, fc := range append(slices.Clone(a.listener.FilterChains), a.listener.DefaultFilterChain) {
		out[fc] = chainOrigin{by: a.patch.Filter.Ref()}
	}
	return out
}

// virtual reports the listeners whose chains, not they, have the ports.
func (c *listenerPatcher) virtual() bool {
	return c.l.GetName() == virtualInboundName || c.l.GetName() == virtualOutboundName
}

// matches tests a patch's context and match.listener up to the chains.
func (c *listenerPatcher) matches(p *envoyPatch) bool {
	if !p.in(c.context) {
		return false
	}
	m := p.Match.GetListener()
	if m == nil {
		return true
	}
	if m.GetName() != "" && m.GetName() != c.l.GetName() {
		return false
	}
	if p.ApplyTo != networking.EnvoyFilter_LISTENER && c.virtual() {
		return true
	}
	return m.GetPortNumber() == 0 || c.l.GetAddress().GetSocketAddress() != nil && c.l.GetAddress().GetSocketAddress().GetPortValue() == m.GetPortNumber()
}

// matchesChain also tests match.listener.filterChain.
func (c *listenerPatcher) matchesChain(fc *listenerv3.FilterChain, p *envoyPatch) bool {
	if !c.matches(p) {
		return false
	}
	m := p.Match.GetListener()
	own := fc.GetFilterChainMatch()
	if m == nil {
		return true
	}
	if c.virtual() && m.GetPortNumber() > 0 && own.GetDestinationPort().GetValue() != m.GetPortNumber() {
		return false
	}
	want := m.GetFilterChain()
	if want == nil {
		return true
	}
	if want.GetApplicationProtocols() != "" {
		for _, protocol := range strings.Split(want.GetApplicationProtocols(), ",") {
			if !slices.Contains(own.GetApplicationProtocols(), protocol) {
				return false
			}
		}
	}
	return (want.GetName() == "" || want.GetName() == fc.GetName()) &&
		(want.GetSni() == "" || slices.Contains(own.GetServerNames(), want.GetSni())) &&
		(want.GetTransportProtocol() == "" || own.GetTransportProtocol() == want.GetTransportProtocol()) &&
		(want.GetDestinationPort() == 0 || own.GetDestinationPort().GetValue() == want.GetDestinationPort())
}

// edit applies an operation on a list of filters. named: the patch says which
// filter it is about; is tests one; value makes what is added, false: nothing.
func edit[E any](list []E, op networking.EnvoyFilter_Patch_Operation, named bool, is func(E) bool, value func() (E, bool)) []E {
	at := slices.IndexFunc(list, is)
	if op == networking.EnvoyFilter_Patch_REMOVE {
		if named {
			list = slices.DeleteFunc(list, is)
		}
		return list
	}
	v, ok := value()
	if !ok {
		return list
	}
	switch op {
	case networking.EnvoyFilter_Patch_ADD:
		return append(list, v)
	case networking.EnvoyFilter_Patch_INSERT_FIRST:
		return slices.Insert(list, 0, v)
	case networking.EnvoyFilter_Patch_INSERT_AFTER:
		if !named {
			return append(list, v)
		}
		if at >= 0 {
			return slices.Insert(list, at+1, v)
		}
	case networking.EnvoyFilter_Patch_INSERT_BEFORE:
		if !named {
			return slices.Insert(list, 0, v)
		}
		if at >= 0 {
			return slices.Insert(list, at, v)
		}
	case networking.EnvoyFilter_Patch_REPLACE:
		if named && at >= 0 {
			list[at] = v
		}
	}
	return list
}

// valueOf makes copies of a patch's value.
func valueOf[M proto.Message](b *Builder, p *envoyPatch) func() (M, bool) {
	return func() (M, bool) {
		v, ok := b.patchValue(p).(M)
		if !ok {
			return v, false
		}
		return proto.Clone(v).(M), true
	}
}

func (c *listenerPatcher) patchListenerFilters() {
	for _, p := range c.patches.of(networking.EnvoyFilter_LISTENER_FILTER) {
		if !c.matches(p) {
			continue
		}
		name := p.Match.GetListener().GetListenerFilter()
		if p.Operation == networking.EnvoyFilter_Patch_MERGE {
			value, ok := c.patchValue(p).(*listenerv3.ListenerFilter)
			if name == "" || !ok {
				continue
			}
			for _, f := range c.l.ListenerFilters {
				if f.GetTypedConfig() != nil && value.GetTypedConfig() != nil {
					mergeAny(f.GetTypedConfig(), value.GetTypedConfig())
				}
			}
			continue
		}
		c.l.ListenerFilters = edit(c.l.ListenerFilters, p.Operation, name != "",
			func(f *listenerv3.ListenerFilter) bool { return name == "" || f.GetName() == name },
			valueOf[*listenerv3.ListenerFilter](c.Builder, p))
	}
}
