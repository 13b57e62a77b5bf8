// Package conform compares the plugin's predictions with the judge's answers.
package conform

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Prediction is the plugin's answer as `scope -o json --resources --details`
// prints it.
type Prediction struct {
	Proxies []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Kind      string `json:"kind"`
		Group     string `json:"group"`
	} `json:"proxies"`
	Groups []group `json:"groups"`
	Scopes []struct {
		ID        string    `json:"id"`
		Resources resources `json:"resources"`
	} `json:"scopes"`
	Reasons     []reason `json:"reasons"`
	Gaps        []gap    `json:"gaps"`
	Diagnostics []struct {
		Text string `json:"text"`
	} `json:"diagnostics"`
}

// group is what the plugin says of proxies that get the same.
type group struct {
	ID        string                `json:"id"`
	Scope     string                `json:"scope"`
	Resources resources             `json:"resources"`
	Without   map[string][]string   `json:"without"`
	Resized   map[string][]Resource `json:"resized"`
}

// resources are lists of resources by type.
type resources map[string][]Resource

// Resource is one predicted resource, and the reasons for it.
type Resource struct {
	report.Resource
	Because []int `json:"because"`
}

// reason says why a resource is there.
type reason struct {
	Rule   string `json:"rule"`
	Field  string `json:"field"`
	Text   string `json:"text"`
	Object struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"object"`
}

// gap is a limit that the plugin knows of.
type gap struct {
	Kind    string   `json:"kind"`
	Proxies []string `json:"proxies"`
	All     bool     `json:"all"`
	Text    string   `json:"text"`
}

// Predicted is the plugin's answer for one proxy.
type Predicted struct {
	Kind      string
	Resources map[string]map[string]Resource
	// Gaps are the texts of what is not modelled for the proxy.
	Gaps []string
	// Later is whether one of them is of a kind that is modelled later: the
	// proxy is counted as not equal, but what differs is no failure.
	Later bool
}

var (
	// laterGaps are those of kinds of objects that are modelled later, and of
	// values in EnvoyFilters that cannot be decoded.
	laterGaps = regexp.MustCompile(`\.gateway\.networking\.(x-)?k8s\.io is not modelled$|^Ingress.* is not modelled$|^spec\.configPatches`)
	// otherGaps are of what neither side has in its input: other clusters, the
	// content of Secrets, and in which order the proxies connected.
	otherGaps = regexp.MustCompile(`^the mesh has several networks|not in the bytes$|\(TRAP-3\)$`)
)

// parsePrediction reads the plugin's output and resolves every proxy's set.
func parsePrediction(data []byte) (*Prediction, map[string]Predicted, error) {
	p := &Prediction{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, nil, fmt.Errorf("the plugin's JSON: %w", err)
	}
	groups, scopes := map[string]group{}, map[string]resources{}
	for _, g := range p.Groups {
		groups[g.ID] = g
	}
	for _, s := range p.Scopes {
		scopes[s.ID] = s.Resources
	}
	out := map[string]Predicted{}
	for _, x := range p.Proxies {
		id := x.Namespace + "/" + x.Name
		g, ok := groups[x.Group]
		if !ok {
			return nil, nil, fmt.Errorf("proxy %s: no group %q", id, x.Group)
		}
		gaps := p.gapsOf(id)
		out[id] = Predicted{Kind: x.Kind, Resources: g.resolve(scopes[g.Scope]), Gaps: gaps, Later: slices.ContainsFunc(gaps, laterGaps.MatchString)}
	}
	return p, out, nil
}

// resolve is the scope's resources and the group's own, less those that it is
// without.
func (g group) resolve(scope resources) map[string]map[string]Resource {
	out := map[string]map[string]Resource{}
	for _, t := range report.Types {
		set := map[string]Resource{}
		for _, r := range scope[t] {
			put(set, r)
		}
		for _, name := range g.Without[t] {
			delete(set, name)
		}
		for _, r := range g.Resized[t] {
			if old, ok := set[r.Name]; ok {
				old.Bytes = r.Bytes
				set[r.Name] = old
			}
		}
		for _, r := range g.Resources[t] {
			put(set, r)
		}
		out[t] = set
	}
	return out
}

// put adds a resource to a set. Of two of one name, as two EnvoyFilters add
// listeners, it makes one, as the judge's are merged.
func put(set map[string]Resource, r Resource) {
	if same, ok := set[r.Name]; ok {
		r.Because = append(append([]int{}, same.Because...), r.Because...)
		r.Resource = report.Merge([]report.Resource{same.Resource, r.Resource})[0]
	}
	set[r.Name] = r
}

// gapsOf lists what the plugin says it does not model for a proxy.
func (p *Prediction) gapsOf(id string) []string {
	var out []string
	for _, g := range p.Gaps {
		if g.Kind == "assumed" || otherGaps.MatchString(g.Text) {
			continue
		}
		hit := g.All
		for _, name := range g.Proxies {
			hit = hit || name == id
		}
		if hit {
			out = append(out, g.Text)
		}
	}
	return report.Set(out)
}

// explain writes the reasons of a resource in words.
func (p *Prediction) explain(r Resource) string {
	var out []string
	for _, i := range r.Because {
		if i < 0 || i >= len(p.Reasons) {
			continue
		}
		why := p.Reasons[i]
		text := why.Rule + " " + why.Text
		if why.Object.Kind != "" {
			text += fmt.Sprintf(" (%s %s/%s %s)", why.Object.Kind, why.Object.Namespace, why.Object.Name, why.Field)
		}
		out = append(out, strings.TrimSpace(text))
	}
	return strings.Join(out, "; ")
}

// Rules lists the ids of the rules that the prediction gives as reasons.
func (p *Prediction) Rules() []string {
	var out []string
	for _, r := range p.Reasons {
		out = append(out, r.Rule)
	}
	return report.Set(out)
}
