package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Dump collects the answers of an Envoy's /config_dump.
type Dump struct {
	actual *Actual
	// assignments are the load assignments by name, until the clusters tell which
	// of them are EDS's: Envoy lists the endpoints of its DNS clusters beside them.
	assignments map[string]*anypb.Any
	edsNames    map[string]bool
	clusters    bool // told
	parts       bool // the answers are for one ?resource= each, and may be empty
}

// NewDump begins a collection; from says for people where it is read.
func NewDump(from string) *Dump {
	return &Dump{actual: newActual(from), assignments: map[string]*anypb.Any{}, edsNames: map[string]bool{}}
}

// Add reads an answer: of /config_dump, whole or for one ?resource=, or what
// istioctl proxy-config all -o json prints. Static resources, which Envoy has
// from its bootstrap, are left out; so are secrets, unread.
func (d *Dump) Add(text []byte) error {
	var answer struct {
		Configs []json.RawMessage `json:"configs"`
	}
	text, _, err := transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), text) // PowerShell writes UTF-16, or UTF-8 with a mark
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("no JSON of a config dump: %w", err)
	}
	if answer.Configs == nil && !d.parts {
		return errors.New(`no config dump: there is no list "configs"; give what Envoy's /config_dump?include_eds answers, or istioctl proxy-config all -o json`)
	}
	for i, config := range answer.Configs {
		if err := d.addConfig(config); err != nil {
			return fmt.Errorf("configs[%d]: %w", i, err)
		}
	}
	return nil
}

// addConfig reads one entry by its @type. What is not compared is not decoded.
func (d *Dump) addConfig(text json.RawMessage) error {
	var head struct {
		Type string `json:"@type"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	_, name, _ := strings.Cut(head.Type, "/envoy.admin.v3.")
	message, take := d.reader(name)
	if message == nil {
		return nil
	}
	if err := decode(text, message); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return take()
}

// reader gives the message to decode an entry into, and what to do with it
// then; nil: the entry is left out.
func (d *Dump) reader(name string) (proto.Message, func() error) {
	switch name {
	case "BootstrapConfigDump":
		m := &adminv3.BootstrapConfigDump{}
		return m, func() error {
			d.actual.NodeID = m.GetBootstrap().GetNode().GetId()
			return nil
		}
	case "ListenersConfigDump":
		m := &adminv3.ListenersConfigDump{}
		return m, func() error { return d.listeners(m.GetDynamicListeners()) }
	case "ListenersConfigDump.DynamicListener":
		m := &adminv3.ListenersConfigDump_DynamicListener{}
		return m, func() error { return d.listeners([]*adminv3.ListenersConfigDump_DynamicListener{m}) }
	case "RoutesConfigDump":
		m := &adminv3.RoutesConfigDump{}
		return m, func() error { return d.routes(m.GetDynamicRouteConfigs()) }
	case "RoutesConfigDump.DynamicRouteConfig":
		m := &adminv3.RoutesConfigDump_DynamicRouteConfig{}
		return m, func() error { return d.routes([]*adminv3.RoutesConfigDump_DynamicRouteConfig{m}) }
	case "ClustersConfigDump":
		m := &adminv3.ClustersConfigDump{}
		return m, func() error { return d.addClusters(m.GetDynamicActiveClusters(), m.GetDynamicWarmingClusters()) }
	case "ClustersConfigDump.DynamicCluster":
		m := &adminv3.ClustersConfigDump_DynamicCluster{}
		return m, func() error { return d.addClusters([]*adminv3.ClustersConfigDump_DynamicCluster{m}, nil) }
	case "EndpointsConfigDump":
		m := &adminv3.EndpointsConfigDump{}
		return m, func() error { return d.endpoints(m.GetDynamicEndpointConfigs()) }
	case "EndpointsConfigDump.DynamicEndpointConfig":
		m := &adminv3.EndpointsConfigDump_DynamicEndpointConfig{}
		return m, func() error { return d.endpoints([]*adminv3.EndpointsConfigDump_DynamicEndpointConfig{m}) }
	case "EcdsConfigDump":
		m := &adminv3.EcdsConfigDump{}
		return m, func() error { return d.extensions(m.GetEcdsFilters()) }
	}
	return nil, nil
}

// decode reads a message whose Anys may be of types that are not linked in:
// those are read as empty, since nothing of them is compared.
func decode(text []byte, into proto.Message) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: lenient{protoregistry.GlobalTypes}}.Unmarshal(text, into)
}

// lenient resolves every type: one that is not known to an empty message.
type lenient struct{ *protoregistry.Types }

// FindMessageByURL implements the resolver of protojson.
func (l lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if known, err := l.Types.FindMessageByURL(url); err == nil {
		return known, nil
	}
	return (&emptypb.Empty{}).ProtoReflect().Type(), nil
}
