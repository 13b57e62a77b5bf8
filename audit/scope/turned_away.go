package scope

import (
	"strconv"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// turnAway tells that an egress listener does not import a service.
func (b *importer) turnAway(l *EgressListener, svc *mesh.Service, rule, word, text string) {
	if !b.explains {
		return
	}
	r := result.Reason{Rule: rule, Word: word, Text: text}
	if b.sidecar != nil {
		r.Object, r.Field = b.sidecar.Ref(), "spec.egress["+strconv.Itoa(l.Index)+"]"
	}
	if word == "host-shadowed" {
		r.Object, r.Field = svc.Ref, ""
	}
	b.rec.Excluded(svc.Host, r)
}

// tellHidden tells which services exportTo hides from the namespace.
func (b *importer) tellHidden() {
	if !b.explains {
		return
	}
	for _, svc := range b.view.Services {
		if !b.visible.visible(svc, b.ns) {
			r := b.visible.reason(svc)
			r.Text += ": namespace " + b.ns + " does not see it"
			b.rec.Excluded(svc.Host, r)
		}
	}
}

// tellUnmatched tells which visible services the listener's hosts do not name.
func (b *importer) tellUnmatched(l *EgressListener, hosts *egressHosts) {
	if b.sidecar == nil {
		return
	}
	for _, svc := range b.visible.services(b.ns) {
		matched := false
		for _, set := range []*hostSet{hosts.byNamespace[svc.Namespace], hosts.any} {
			if set != nil && !matched {
				_, matched = set.matchService(svc.Host)
			}
		}
		if !matched {
			b.rec.Excluded(svc.Host, result.Reason{Rule: "SC-9", Word: "sidecar-hosts", Object: b.sidecar.Ref(),
				Field: egressField(l.Index, -1), Text: "no egress host names it: neither one for namespace " + svc.Namespace + " nor one for *"})
		}
	}
}

// shadowed tells that another service of the host name is taken scope-wide.
func (b *importer) shadowed(loser, winner *Service, text string) {
	if !b.explains {
		return
	}
	b.rec.Excluded(loser.Host, result.Reason{Rule: "SC-20", Word: "host-shadowed", Object: loser.Ref,
		Text: text + ": " + winner.Ref.Kind + " " + winner.Ref.Namespace + "/" + winner.Ref.Name})
}
