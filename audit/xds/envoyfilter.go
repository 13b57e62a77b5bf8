package xds

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"istio.io/api/type/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const (
	gatewayNameLabel = "gateway.networking.k8s.io/gateway-name"
	gatewayAPIGroup  = "gateway.networking.k8s.io"

	// maxProxyVersionLen bounds match.proxy.proxyVersion: a longer expression matches no proxy.
	maxProxyVersionLen = 1024
)

// envoyPatch is one entry of an EnvoyFilter's configPatches.
type envoyPatch struct {
	Filter    *snapshot.EnvoyFilter
	Index     int // in spec.configPatches
	ApplyTo   networking.EnvoyFilter_ApplyTo
	Operation networking.EnvoyFilter_Patch_Operation // as istiod takes it: INSERT_* of a thing without order is ADD
	Match     *networking.EnvoyFilter_EnvoyConfigObjectMatch
	Patch     *networking.EnvoyFilter_Patch // Value may be nil
}

// in reports that the patch is for the context.
func (p *envoyPatch) in(context networking.EnvoyFilter_PatchContext) bool {
	return p.Match.GetContext() == networking.EnvoyFilter_ANY || p.Match.GetContext() == context
}

// field names the patch within its object.
func (p *envoyPatch) field() string {
	return "spec.configPatches[" + strconv.Itoa(p.Index) + "]"
}

// envoyPatches are the patches that apply to a proxy, in istiod's order. Two
// proxies with the same patches share one, so its address serves in keys.
type envoyPatches struct {
	byApplyTo map[networking.EnvoyFilter_ApplyTo][]*envoyPatch
	// Filters are the EnvoyFilters selected, whether or not a patch of theirs
	// matches the proxy's version and metadata, in istiod's order.
	Filters []*snapshot.EnvoyFilter
}

// of returns the patches of one kind, in order; none for a nil e.
func (e *envoyPatches) of(kind networking.EnvoyFilter_ApplyTo) []*envoyPatch {
	if e == nil {
		return nil
	}
	return e.byApplyTo[kind]
}

// patchIndex is the EnvoyFilters of a view by namespace, and what was looked
// up so far.
type patchIndex struct {
	byNamespace map[string][]*indexedFilter
	distinct    map[string]*envoyPatches // by the patches' positions
}

// indexedFilter is an EnvoyFilter with its usable patches.
type indexedFilter struct {
	*snapshot.EnvoyFilter
	pos     int // in View.EnvoyFilters
	patches []*envoyPatch
	version []*regexp.Regexp // per patch; nil: any version
	never   []bool           // per patch: matches no proxy
}

// patchesFor returns the EnvoyFilter patches that apply to a proxy: those of
// the root namespace and of its own, by workloadSelector or targetRefs, then
// by match.proxy (CDS-16, VIS-11, EF-1; Istio pilot/pkg/model/push_context.go
// EnvoyFilters, policyattachment.go). It is nil if no EnvoyFilter is selected.
func (b *Builder) patchesFor(p *mesh.Proxy) *envoyPatches {
	if b.patches == nil {
		b.patches = indexFilters(b.view.EnvoyFilters)
	}
	root := b.view.RootNamespace
	var selected []*indexedFilter
	for _, namespace := range slices.Compact([]string{root, p.Namespace}) {
		if namespace == "" {
			continue
		}
		for _, f := range b.patches.byNamespace[namespace] {
			if filterSelects(f.EnvoyFilter, p) {
				selected = append(selected, f)
			}
		}
	}
	if len(selected) == 0 {
		return nil
	}
	slices.SortStableFunc(selected, func(x, y *indexedFilter) int { return compareFilters(x.EnvoyFilter, y.EnvoyFilter, root) })
	return b.patches.intern(selected, p)
}

// compareFilters is istiod's order of the EnvoyFilters of one proxy: priority,
// the root namespace first, creation, name.
func compareFilters(x, y *snapshot.EnvoyFilter, root string) int {
	return cmp.Or(
		cmp.Compare(x.Spec.GetPriority(), y.Spec.GetPriority()),
		cmp.Compare(notIn(x.Namespace, root), notIn(y.Namespace, root)),
		cmp.Compare(x.Created, y.Created),
		cmp.Compare(x.Name+"."+x.Namespace, y.Name+"."+y.Namespace),
	)
}

func notIn(namespace, root string) int {
	if namespace == root {
		return 0
	}
	return 1
}

// intern collects the patches of the selected filters that match the proxy.
func (x *patchIndex) intern(selected []*indexedFilter, p *mesh.Proxy) *envoyPatches {
	var key strings.Builder
	out := &envoyPatches{byApplyTo: map[networking.EnvoyFilter_ApplyTo][]*envoyPatch{}}
	for _, f := range selected {
		key.WriteString(strconv.Itoa(f.pos) + ":")
		out.Filters = append(out.Filters, f.EnvoyFilter)
		for i, patch := range f.patches {
			if !f.never[i] && proxyMatches(patch.Match.GetProxy(), f.version[i], p) {
				key.WriteString(strconv.Itoa(i) + ",")
				out.byApplyTo[patch.ApplyTo] = append(out.byApplyTo[patch.ApplyTo], patch)
			}
		}
		key.WriteByte(';')
	}
	if known := x.distinct[key.String()]; known != nil {
		return known
	}
	x.distinct[key.String()] = out
	return out
}

// indexFilters reads the patches of all EnvoyFilters once.
func indexFilters(filters []*snapshot.EnvoyFilter) *patchIndex {
	x := &patchIndex{byNamespace: map[string][]*indexedFilter{}, distinct: map[string]*envoyPatches{}}
	for pos, f := range filters {
		indexed := &indexedFilter{EnvoyFilter: f, pos: pos}
		for i, cp := range f.Spec.GetConfigPatches() {
			if cp.GetPatch() == nil {
				continue
			}
			patch := &envoyPatch{
				Filter: f, Index: i, ApplyTo: cp.GetApplyTo(), Patch: cp.GetPatch(),
				Operation: orderless(cp.GetApplyTo(), cp.GetPatch().GetOperation()), Match: cp.GetMatch(),
			}
			if patch.Match == nil {
				patch.Match = &networking.EnvoyFilter_EnvoyConfigObjectMatch{}
			}
			expr, never := versionExpression(patch.Match.GetProxy().GetProxyVersion())
			indexed.patches = append(indexed.patches, patch)
			indexed.version = append(indexed.version, expr)
			indexed.never = append(indexed.never, never)
		}
		x.byNamespace[f.Namespace] = append(x.byNamespace[f.Namespace], indexed)
	}
	return x
}

// orderless turns INSERT_* into ADD where the things patched have no order.
func orderless(kind networking.EnvoyFilter_ApplyTo, op networking.EnvoyFilter_Patch_Operation) networking.EnvoyFilter_Patch_Operation {
	switch op {
	case networking.EnvoyFilter_Patch_INSERT_AFTER, networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_FIRST:
	default:
		return op
	}
	switch kind {
	case networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_HTTP_ROUTE, networking.EnvoyFilter_LISTENER_FILTER:
		return op
	}
	return networking.EnvoyFilter_Patch_ADD
}

// versionExpression compiles a proxyVersion. A broken expression is no
// condition, as in istiod; a very long one matches nothing.
func versionExpression(s string) (expr *regexp.Regexp, never bool) {
	if s == "" {
		return nil, false
	}
	if len(s) > maxProxyVersionLen {
		return nil, true
	}
	expr, err := regexp.Compile(s)
	if err != nil {
		return nil, false
	}
	return expr, false
}

// proxyMatches tests match.proxy of a patch.
func proxyMatches(match *networking.EnvoyFilter_ProxyMatch, version *regexp.Regexp, p *mesh.Proxy) bool {
	if match == nil {
		return true
	}
	if version != nil {
		v := p.Version.String()
		if v == "" || !version.MatchString(v) {
			return false
		}
	}
	for k, v := range match.GetMetadata() {
		if p.Metadata.Raw[k] != v {
			return false
		}
	}
	return true
}

// filterSelects tests an EnvoyFilter's workloadSelector and targetRefs against
// a proxy; its namespace has been tested.
func filterSelects(f *snapshot.EnvoyFilter, p *mesh.Proxy) bool {
	refs := f.Spec.GetTargetRefs()
	gateway, isGateway := p.Labels.Lookup(gatewayNameLabel)
	switch {
	case len(refs) == 0:
		return p.Labels.Include(f.Spec.GetWorkloadSelector().GetLabels())
	case !isGateway:
		return false
	}
	return f.Namespace == p.Namespace && slices.ContainsFunc(refs, func(ref *v1beta1.PolicyTargetReference) bool {
		return ref.GetGroup() == gatewayAPIGroup && ref.GetKind() == "Gateway" && ref.GetName() == gateway &&
			(ref.GetNamespace() == "" || ref.GetNamespace() == p.Namespace)
	})
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
