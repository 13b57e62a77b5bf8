package xds

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// builtListener is an outbound listener without what a scope adds; scopes share
// it. It is not changed once built.
type builtListener struct {
	name   string // empty: an EnvoyFilter removes it
	parts  []result.Part
	digest result.Digest
	routes []string
	// extensions are the configurations that its filters leave to ECDS.
	extensions []string
	tags       *tagged
	patched    []result.ReasonID // what EnvoyFilters change of it
	// sized are the parts with the bytes of proxies for which the listener has
	// the bytes of the key.
	sized map[int64][]result.Part
}

// listenerMemo keeps built listeners: the same service listens alike in every
// scope but for the tags of the namespace.
type listenerMemo struct {
	built  map[string]*builtListener
	shapes map[string]string
	rules  map[*networking.DestinationRule]string
}

func (m *listenerMemo) keep(key string, l *builtListener) {
	if m.built == nil {
		m.built = map[string]*builtListener{}
	}
	m.built[key] = l
}

// shapeID is a short name for a shape.
func (m *listenerMemo) shapeID(shape string) string {
	if m.shapes == nil {
		m.shapes = map[string]string{}
	}
	if m.shapes[shape] == "" {
		m.shapes[shape] = strconv.Itoa(len(m.shapes) + 1)
	}
	return m.shapes[shape]
}

// ruleID is a short name for a DestinationRule; empty for none.
func (m *listenerMemo) ruleID(rule *networking.DestinationRule) string {
	if rule == nil {
		return ""
	}
	if m.rules == nil {
		m.rules = map[*networking.DestinationRule]string{}
	}
	if m.rules[rule] == "" {
		m.rules[rule] = strconv.Itoa(len(m.rules) + 1)
	}
	return m.rules[rule]
}

// memoKey holds all that an entry's listener is made from; false: it depends on
// its scope.
func (o *outboundBuilder) memoKey(e *listenerEntry) (string, bool) {
	var k strings.Builder
	list := func(values []string) {
		for _, v := range values {
			k.WriteString(v)
			k.WriteByte(0)
		}
		k.WriteByte(1)
	}
	k.WriteString(o.shapeID)
	k.WriteByte(1)
	k.WriteString(strconv.Itoa(e.port.Number))
	k.WriteString(strconv.FormatBool(e.bind.toPort))
	list(e.bind.addresses)
	for _, c := range e.chains {
		if c.key == "" {
			return "", false
		}
		k.WriteString(c.key)
		k.WriteByte(1)
		list(c.sni)
		list(c.cidrs)
		list(c.alpn)
	}
	return k.String(), true
}

// listenerOf is a built listener in the scope; nil: it was removed.
func (o *outboundBuilder) listenerOf(built *builtListener) *Listener {
	if built.name == "" {
		return nil
	}
	out := &Listener{Routes: built.routes, tags: built.tags, shape: o.shape}
	out.Name, out.Digest = built.name, built.digest
	out.Bytes = built.tags.bytesFor(o.own)
	out.Parts = built.partsFor(o.own, out.Bytes)
	if len(built.extensions) > 0 {
		o.noteDiscovered(&out.Resource, built.extensions)
	}
	return out
}

// partsFor are the parts with the bytes of a proxy, for which the listener has
// the given bytes.
func (l *builtListener) partsFor(own ownSizes, bytes int64) []result.Part {
	if bytes == l.tags.bytes {
		return l.parts
	}
	if known := l.sized[bytes]; known != nil {
		return known
	}
	parts := slices.Clone(l.parts)
	tags, service := l.tags.growth(own)
	for i := range l.tags.sites {
		site := &l.tags.sites[i]
		chain := len(site.sizes) - 1
		for j := range parts {
			if parts[j].Bytes == int64(site.sizes[chain]) && l.parts[j].Bytes == parts[j].Bytes {
				parts[j].Bytes += int64(nestedGrowth(site.growth(tags, service), site.sizes[:chain]))
				break
			}
		}
	}
	if l.sized == nil {
		l.sized = map[int64][]result.Part{}
	}
	l.sized[bytes] = parts
	return parts
}
