package scope

import (
	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// Scoper computes and keeps the distinct scopes of one view.
type Scoper struct {
	view *mesh.View
	rec  Recorder
	memo map[Key]*Scope

	gateways gatewayMemo
}

// NewScoper indexes a view for scoping; rec is told of each decision.
func NewScoper(view *mesh.View, rec Recorder) *Scoper {
	return &Scoper{view: view, rec: rec, memo: map[Key]*Scope{}}
}
