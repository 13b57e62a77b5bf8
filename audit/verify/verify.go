// Package verify holds a prediction against what is: the config dump of a
// proxy's Envoy, or what an istiod answers when asked as that proxy. It reads
// the actual side, takes it apart as package xds does with the predicted one,
// and compares. It never asks for secrets.
package verify

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// Actual is what one proxy really has.
type Actual struct {
	From string // for people: "config dump FILE", "istiod 1.31.0 at HOST:PORT"
	// NodeID is the proxy's own, "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local";
	// empty: not told.
	NodeID string
	Istiod string // version of the istiod that sent it; empty: not told
	Bytes  bool   // the resources' bytes are those on the wire
	// Types has the resources of each type by name. A type that is not there was
	// not told, for the reason in NotTold if there is one.
	Types   map[string]map[string]*result.Resource
	NotTold map[string]string
	Notes   []string // what may explain a difference: warming, refused, draining
}

func newActual(from string) *Actual {
	return &Actual{From: from, Types: map[string]map[string]*result.Resource{}, NotTold: map[string]string{}}
}

// Proxy returns the namespace and name in the node's id; empty if it is not told.
func (a *Actual) Proxy() (namespace, name string) {
	words := strings.Split(a.NodeID, "~")
	if len(words) != 4 {
		return "", ""
	}
	i := strings.LastIndexByte(words[2], '.')
	if i < 0 {
		return "", ""
	}
	return words[2][i+1:], words[2][:i]
}

// add files a resource under its type.
func (a *Actual) add(xdsType string, r *result.Resource) {
	if a.Types[xdsType] == nil {
		a.Types[xdsType] = map[string]*result.Resource{}
	}
	if r != nil {
		a.Types[xdsType][r.Name] = r
	}
}

// note says once what may explain a difference.
func (a *Actual) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(a.Notes, text) {
		a.Notes = append(a.Notes, text)
	}
}

// references are the names under which a resource asks for others.
type references struct{ routes, extensions, endpoints []string }

// takeApart makes the resource of a message of the xDS type. The name is the
// message's own if it is empty.
func takeApart(xdsType, name string, message *anypb.Any) (*result.Resource, references, error) {
	r := &result.Resource{Name: name, Bytes: int64(len(message.GetValue()))}
	var refs references
	own := func() string { return "" }
	into := func(m proto.Message) error {
		if err := message.UnmarshalTo(m); err != nil {
			return fmt.Errorf("%s %s: %w", xdsType, name, err)
		}
		return nil
	}
	var err error
	switch xdsType {
	case "lds":
		l := &listenerv3.Listener{}
		if err = into(l); err == nil {
			own = l.GetName
			r.Parts, refs.routes, refs.extensions = xds.ListenerParts(l)
		}
	case "rds":
		rc := &routev3.RouteConfiguration{}
		if err = into(rc); err == nil {
			own = rc.GetName
			r.Parts = xds.RouteParts(rc)
		}
	case "cds":
		c := &clusterv3.Cluster{}
		if err = into(c); err == nil {
			own = c.GetName
			var eds string
			if r.Parts, eds = xds.ClusterParts(c); eds != "" {
				refs.endpoints = []string{eds}
			}
		}
	case "eds":
		a := &endpointv3.ClusterLoadAssignment{}
		if err = into(a); err == nil {
			own = a.GetClusterName
			r.Parts = xds.LoadAssignmentParts(a)
		}
	case "nds":
		r.Parts, err = xds.NameTableParts(message.GetValue())
	}
	if r.Name == "" {
		r.Name = own()
	}
	return r, refs, err
}
