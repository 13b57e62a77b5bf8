package xds

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// mergeTransportSocket merges the transport socket of a patch below the
// message, and reports whether that was all that the patch is applied for.
func mergeTransportSocket(c, patch *clusterv3.Cluster) bool {
	socket := patch.GetTransportSocket()
	if socket == nil {
		return false
	}
	var into *corev3.TransportSocket
	if matches := c.GetTransportSocketMatches(); len(matches) > 0 {
		i := slices.IndexFunc(matches, func(m *clusterv3.Cluster_TransportSocketMatch) bool {
			return m.GetTransportSocket() != nil && m.GetTransportSocket().GetName() == socket.GetName()
		})
		if i < 0 {
			return true
		}
		into = matches[i].GetTransportSocket()
	} else if c.GetTransportSocket().GetName() == socket.GetName() {
		into = c.GetTransportSocket()
	}
	if into == nil {
		c.TransportSocket = socket
		return true
	}
	if dst, src := into.GetTypedConfig(), socket.GetTypedConfig(); dst != nil && src != nil {
		return mergeAny(dst, src)
	}
	return true
}

// mergeAny merges the message packed in src into that in dst. False: one of
// them cannot be read, or they are of different types.
func mergeAny(dst, src *anypb.Any) bool {
	into, err := dst.UnmarshalNew()
	if err != nil {
		return false
	}
	from, err := src.UnmarshalNew()
	if err != nil || into.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
		return false
	}
	clearReplaced(into.ProtoReflect(), from.ProtoReflect(), false)
	proto.Merge(into, from)
	packed := toAny(into)
	dst.TypeUrl, dst.Value = packed.TypeUrl, packed.Value
	return true
}
