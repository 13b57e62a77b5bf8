package mesh

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// mergeRoute gives a delegate's route what it leaves to the root's route; nil if
// their matches conflict. sub is changed (VIS-6; Istio
// pilot/pkg/model/virtualservice.go).
func mergeRoute(root, sub *networking.HTTPRoute) *networking.HTTPRoute {
	matches, ok := mergeMatches(root.GetMatch(), sub.GetMatch())
	if !ok {
		return nil
	}
	sub.Match = matches
	sub.Name = joinNames(root.GetName(), sub.GetName())
	if sub.Rewrite == nil {
		sub.Rewrite = root.Rewrite
	}
	if sub.DirectResponse == nil {
		sub.DirectResponse = root.DirectResponse
	}
	if sub.Timeout == nil {
		sub.Timeout = root.Timeout
	}
	if sub.Retries == nil {
		sub.Retries = root.Retries
	}
	if sub.Fault == nil {
		sub.Fault = root.Fault
	}
	if sub.Mirror == nil {
		sub.Mirror = root.Mirror
	}
	if sub.MirrorPercent == nil {
		sub.MirrorPercent = root.MirrorPercent
	}
	if sub.MirrorPercentage == nil {
		sub.MirrorPercentage = root.MirrorPercentage
	}
	if sub.CorsPolicy == nil {
		sub.CorsPolicy = root.CorsPolicy
	}
	if sub.Mirrors == nil {
		sub.Mirrors = root.Mirrors
	}
	if sub.Headers == nil {
		sub.Headers = root.Headers
	}
	return sub
}

func joinNames(root, sub string) string {
	if root == "" || sub == "" {
		return root + sub
	}
	return root + "-" + sub
}

// mergeMatches pairs each of the delegate's matches with every match of the root
// that it does not conflict with; each must find one.
func mergeMatches(root, sub []*networking.HTTPMatchRequest) (out []*networking.HTTPMatchRequest, ok bool) {
	if len(root) == 0 {
		return sub, true
	}
	if len(sub) == 0 {
		return root, true
	}
	for _, s := range sub {
		found := false
		for _, r := range root {
			if s == nil || r == nil || matchesConflict(r, s) {
				continue
			}
			out = append(out, mergeMatch(r, s))
			found = true
		}
		if !found {
			return nil, false
		}
	}
	return out, true
}

func mergeMatch(root, sub *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	out := proto.CloneOf(sub)
	out.Name = joinNames(root.GetName(), sub.GetName())
	if out.Uri == nil {
		out.Uri = root.Uri
	}
	if out.Scheme == nil {
		out.Scheme = root.Scheme
	}
	if out.Method == nil {
		out.Method = root.Method
	}
	if out.Authority == nil {
		out.Authority = root.Authority
	}
	out.Headers = joined(root.GetHeaders(), sub.GetHeaders())
	out.WithoutHeaders = joined(root.GetWithoutHeaders(), sub.GetWithoutHeaders())
	out.QueryParams = joined(root.GetQueryParams(), sub.GetQueryParams())
	if out.Port == 0 {
		out.Port = root.GetPort()
	}
	out.SourceLabels = joined(root.GetSourceLabels(), sub.GetSourceLabels())
	if out.SourceNamespace == "" {
		out.SourceNamespace = root.GetSourceNamespace()
	}
	if len(out.Gateways) == 0 {
		out.Gateways = root.GetGateways()
	}
	if out.StatPrefix == "" {
		out.StatPrefix = root.GetStatPrefix()
	}
	return out
}

// joined is a with b's entries over it.
func joined[V any](a, b map[string]V) map[string]V {
	out := make(map[string]V, len(a)+len(b))
	for key, value := range a {
		out[key] = value
	}
	for key, value := range b {
		out[key] = value
	}
	return out
}

func matchesConflict(root, sub *networking.HTTPMatchRequest) bool {
	pairs := [][2]*networking.StringMatch{
		{root.GetUri(), sub.GetUri()}, {root.GetScheme(), sub.GetScheme()},
		{root.GetMethod(), sub.GetMethod()}, {root.GetAuthority(), sub.GetAuthority()},
	}
	for _, maps := range [][2]map[string]*networking.StringMatch{
		{root.GetHeaders(), sub.GetHeaders()}, {root.GetWithoutHeaders(), sub.GetWithoutHeaders()},
		{root.GetQueryParams(), sub.GetQueryParams()},
	} {
		for key, value := range maps[1] {
			pairs = append(pairs, [2]*networking.StringMatch{maps[0][key], value})
		}
	}
	if slices.ContainsFunc(pairs, func(p [2]*networking.StringMatch) bool { return stringsConflict(p[0], p[1]) }) {
		return true
	}
	if root.GetIgnoreUriCase() != sub.GetIgnoreUriCase() ||
		root.GetPort() > 0 && sub.GetPort() > 0 && root.GetPort() != sub.GetPort() ||
		root.GetSourceNamespace() != "" && sub.GetSourceNamespace() != root.GetSourceNamespace() {
		return true
	}
	for key, value := range sub.GetSourceLabels() {
		if have, found := root.GetSourceLabels()[key]; found && have != value {
			return true
		}
	}
	return gatewaysConflict(root.GetGateways(), sub.GetGateways())
}

// gatewaysConflict reports gateways of sub that are not among root's.
func gatewaysConflict(root, sub []string) bool {
	if len(root) == 0 || len(sub) == 0 {
		return false
	}
	if len(root) < len(sub) {
		return true
	}
	return slices.ContainsFunc(sub, func(g string) bool { return !slices.Contains(root, g) })
}

// stringsConflict reports that sub does not narrow root.
func stringsConflict(root, sub *networking.StringMatch) bool {
	if root == nil || sub == nil {
		return false
	}
	set := func(m *networking.StringMatch) bool {
		return m.GetRegex() != "" || m.GetPrefix() != "" || m.GetExact() != ""
	}
	if root.GetRegex() != "" && set(sub) || sub.GetRegex() != "" && set(root) {
		return true
	}
	if exact := root.GetExact(); exact != "" {
		return sub.GetPrefix() != "" || sub.GetExact() != exact
	}
	if prefix := root.GetPrefix(); prefix != "" {
		if sub.GetPrefix() != "" {
			return !strings.HasPrefix(sub.GetPrefix(), prefix)
		}
		if sub.GetExact() != "" {
			return !strings.HasPrefix(sub.GetExact(), prefix)
		}
	}
	return true
}
