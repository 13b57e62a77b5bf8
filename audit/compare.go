package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/diff"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// Compare tells what is different in head, of audits run with Options.Details
// or saved with their details. The labels name the sides in the report.
func Compare(base, head *result.Audit, baseLabel, headLabel string) *result.Diff {
	return diff.Compare(base, head, diff.Options{BaseLabel: baseLabel, HeadLabel: headLabel})
}

type objectKey struct{ kind, namespace, name string }

func (a *assembly) indexObjects() {
	a.objects = make(map[objectKey]uint32, len(a.out.Objects))
	for i, o := range a.out.Objects {
		a.objects[objectKey{o.Kind, o.Namespace, o.Name}] = uint32(i)
	}
}

// uses are the objects that a scope depends on, sorted.
func (a *assembly) uses(s *xds.ScopeResult) []uint32 {
	var out []uint32
	for _, ref := range s.Uses() {
		if i, ok := a.objects[objectKey{ref.Kind, ref.Namespace, ref.Name}]; ok {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// meshConfigDigests has a digest for each top-level field that is set.
func meshConfigDigests(config *meshconfig.MeshConfig) map[string]string {
	out := map[string]string{}
	config.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		alone := &meshconfig.MeshConfig{}
		alone.ProtoReflect().Set(field, value)
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(alone)
		if err != nil {
			encoded = []byte(err.Error())
		}
		sum := sha256.Sum256(encoded)
		out[field.JSONName()] = hex.EncodeToString(sum[:4])
		return true
	})
	return out
}

var mtlsNames = map[mesh.MTLSMode]string{mesh.MTLSStrict: "STRICT", mesh.MTLSPermissive: "PERMISSIVE", mesh.MTLSDisable: "DISABLE"}

// accountsOf tells sets of service accounts behind endpoints apart; 0: none.
func accountsOf(rows []mesh.Endpoint) result.Digest {
	var names []string
	var last *mesh.Backend
	for i := range rows {
		if row := rows[i].Backend; row != last && row.Identity != "" {
			names = append(names, row.Identity)
			last = row
		}
	}
	if len(names) == 0 {
		return 0
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(names), "\x00")))
	return result.Digest(max(1, binary.BigEndian.Uint64(sum[:])))
}

// mtlsOf is what the proxies behind endpoints demand of callers.
func mtlsOf(view *mesh.View, rows []mesh.Endpoint) string {
	type workload struct {
		backend *mesh.Backend
		port    int
	}
	seen := map[workload]bool{}
	mode := ""
	for i := range rows {
		row := &rows[i]
		if !row.MTLS || seen[workload{row.Backend, row.Port}] {
			continue
		}
		seen[workload{row.Backend, row.Port}] = true
		switch is := mtlsNames[view.MTLSMode(row.Namespace, row.Labels, row.Port)]; mode {
		case "", is:
			mode = is
		default:
			return "MIXED"
		}
	}
	return mode
}
