package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// ByteBound is how far the bytes of a connection, or of one of its types, may
// be off to count as equal: 1 %.
const ByteBound = 0.01

// Compare holds the prediction for a proxy against what it really has. Where that
// tells of no type that every proxy has, the answer is Unread.
func Compare(a *result.Audit, p *result.Proxy, actual *Actual) result.Verified {
	v := result.Verified{Namespace: p.Namespace, Name: p.Name, Kind: p.Kind, Actual: actual.From, Equal: true}
	predicted := a.Resolve(a.GroupByID(p.Group))
	total := &result.ByteComparison{}
	for _, t := range result.Types {
		c := compareType(t, *predicted.Of(t), actual)
		if c.NotCompared == "" && c.Predicted+c.Actual == 0 {
			continue
		}
		v.Equal = v.Equal && !c.Differs()
		if c.Bytes != nil {
			total.Predicted += c.Bytes.Predicted
			total.Actual += c.Bytes.Actual
		}
		v.Types = append(v.Types, c)
	}
	if len(v.NotCompared()) == len(result.CommonTypes) {
		v.Equal, v.Types = false, nil
		v.Unread = actual.From + " tells of no listeners, routes, clusters or endpoints"
		return v
	}
	if actual.Bytes {
		v.Bytes = total
		total.Within = within(total.Predicted, total.Actual)
		v.Equal = v.Equal && total.Within
	}
	v.May = slices.Clone(actual.Notes)
	if !v.Equal {
		v.May = append(v.May, explanations(a, p, actual)...)
	}
	return v
}

func compareType(xdsType string, predicted []*result.Resource, actual *Actual) result.VerifiedType {
	c := result.VerifiedType{Type: xdsType, Predicted: len(predicted)}
	have, told := actual.Types[xdsType]
	if !told {
		if len(predicted) > 0 || xdsType != "nds" && xdsType != "ecds" {
			c.NotCompared = cmp.Or(actual.NotTold[xdsType], "not in what was read")
		}
		return c
	}
	c.Actual = len(have)
	bytes := result.ByteComparison{}
	names := map[string]bool{}
	for _, r := range predicted {
		names[r.Name] = true
		bytes.Predicted += r.Bytes
		real := have[r.Name]
		if real == nil {
			c.Missing = append(c.Missing, r.Name)
			continue
		}
		missing, extra := partsApart(r.Parts, real.Parts)
		switch {
		case len(missing)+len(extra) > 0:
			c.Differing = append(c.Differing, result.VerifiedParts{Name: r.Name, Missing: missing, Extra: extra})
		case actual.Bytes && r.Bytes != real.Bytes:
			c.Resized = append(c.Resized, result.VerifiedResized{Name: r.Name, ByteComparison: result.ByteComparison{
				Predicted: r.Bytes, Actual: real.Bytes, Within: within(r.Bytes, real.Bytes),
			}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		bytes.Actual += have[name].Bytes
		if !names[name] {
			c.Extra = append(c.Extra, name)
		}
	}
	if actual.Bytes {
		bytes.Within = within(bytes.Predicted, bytes.Actual)
		c.Bytes = &bytes
	}
	return c
}

func within(predicted, actual int64) bool {
	off := predicted - actual
	if off < 0 {
		off = -off
	}
	return float64(off) <= ByteBound*float64(actual)
}

// canonical is what of a part is compared.
func canonical(p *result.Part) string {
	text, _ := json.Marshal(result.Part{
		Name: p.Name, Match: p.Match, Domains: p.Domains, To: p.To, Type: p.Type, Rule: p.Rule, Endpoints: p.Endpoints, Hosts: p.Hosts,
	})
	return string(text)
}

// partsApart returns the parts that only one side has, each as often as it has
// it more than the other.
func partsApart(predicted, actual []result.Part) (missing, extra []result.Part) {
	count := map[string]int{}
	for i := range actual {
		count[canonical(&actual[i])]++
	}
	for i := range predicted {
		key := canonical(&predicted[i])
		if count[key]--; count[key] < 0 {
			missing = append(missing, predicted[i])
		}
	}
	for i := range actual {
		key := canonical(&actual[i])
		if count[key] > 0 {
			count[key]--
			extra = append(extra, actual[i])
		}
	}
	return missing, extra
}

// explanations say what of the prediction may have led to differences on this proxy.
func explanations(a *result.Audit, p *result.Proxy, actual *Actual) []string {
	var out []string
	for i := range a.Mesh.ControlPlanes {
		cp := &a.Mesh.ControlPlanes[i]
		switch {
		case cp.Revision != p.Revision:
		case actual.Istiod != "" && actual.Istiod != cp.Version:
			out = append(out, fmt.Sprintf("istiod says that it is %s; predicted for %s (--istio-version replaces it)", actual.Istiod, cp.Version))
		case actual.Istiod == "" && cp.VersionAssumed:
			out = append(out, fmt.Sprintf("the version of istiod is assumed to be %s (--istio-version tells it)", cp.Version))
		}
	}
	for _, g := range a.Gaps {
		if len(g.Proxies) == 0 || slices.Contains(g.Proxies, p.Namespace+"/"+p.Name) {
			out = append(out, fmt.Sprintf("%s: %s", g.Kind, g.Text))
		}
	}
	return out
}
