package mesh

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A field that the table misspells would never be dropped.
func TestFieldsSinceExist(t *testing.T) {
	for name := range fieldsSince {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if _, isField := found.(protoreflect.FieldDescriptor); err != nil || !isField {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestKnown(t *testing.T) {
	rule := &networking.DestinationRule{
		Host: "a",
		TrafficPolicy: &networking.TrafficPolicy{
			RetryBudget: &networking.TrafficPolicy_RetryBudget{MinRetryConcurrency: 4},
		},
		Subsets: []*networking.Subset{{Name: "v1", TrafficPolicy: &networking.TrafficPolicy{
			LoadBalancer: &networking.LoadBalancerSettings{ZoneAwareLbSetting: &networking.ZoneAwareLoadBalancerSetting{Enabled: wrapperspb.Bool(true)}},
		}}},
	}
	whole := proto.CloneOf(rule)
	for _, c := range []struct {
		version string
		budget  bool
		zone    bool
	}{{"1.24.6", false, false}, {"1.27.0", true, false}, {"1.30.3", true, false}, {"1.31.0", true, true}} {
		v, _ := ParseVersion(c.version)
		got := known(v, rule)
		budget := got.GetTrafficPolicy().GetRetryBudget() != nil
		zone := got.GetSubsets()[0].GetTrafficPolicy().GetLoadBalancer().GetZoneAwareLbSetting() != nil
		if budget != c.budget || zone != c.zone {
			t.Errorf("%s: retryBudget %t, zoneAwareLbSetting %t; want %t, %t", c.version, budget, zone, c.budget, c.zone)
		}
	}
	if !proto.Equal(rule, whole) {
		t.Error("the object that was read has changed")
	}
}
