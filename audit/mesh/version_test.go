package mesh_test

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"1.31.0":                "1.31.0",
		"v1.28":                 "1.28.0",
		"1.24.6-distroless":     "1.24.6",
		"1.31.0-rc.0":           "1.31.0-rc.0",
		"1.30.3-debug-rc.1":     "1.30.3-rc.1",
		"1.29-alpha.0123456789": "1.29.0-alpha.0123456789",
	} {
		v, ok := mesh.ParseVersion(text)
		if !ok || v.String() != want {
			t.Errorf("ParseVersion(%q) = %s, %t, want %s", text, v, ok, want)
		}
	}
	for _, text := range []string{"", "latest", "1", "a.b", "-1.2", "sha256"} {
		if v, ok := mesh.ParseVersion(text); ok {
			t.Errorf("ParseVersion(%q) = %s, want none", text, v)
		}
	}
}

func TestVersionOrder(t *testing.T) {
	ordered := []string{"1.9.1", "1.30.2", "1.30.3", "1.31.0-alpha.1", "1.31.0-rc.0", "1.31.0", "2.0.0"}
	for i := 1; i < len(ordered); i++ {
		a, _ := mesh.ParseVersion(ordered[i-1])
		b, _ := mesh.ParseVersion(ordered[i])
		if a.Compare(b) != -1 || b.Compare(a) != 1 || a.Compare(a) != 0 {
			t.Errorf("%s does not come before %s", a, b)
		}
	}
	rc, _ := mesh.ParseVersion("1.31.0-rc.0")
	if !rc.AtLeast(1, 31, 0) || rc.AtLeast(1, 31, 1) || !rc.AtLeast(1, 4, 9) {
		t.Error("AtLeast of a release candidate")
	}
}

func TestBehavioursOf(t *testing.T) {
	for text, want := range map[string]bool{
		"1.29.6": false, "1.30.2": false, "1.30.3": true, "1.31.0": true, "1.31.0-rc.0": true, "1.32.0": true,
	} {
		v, _ := mesh.ParseVersion(text)
		if got := mesh.BehavioursOf(v).DefaultExportToNames; got != want {
			t.Errorf("%s: DefaultExportToNames = %t, want %t", text, got, want)
		}
	}
}

func TestFlagsOf(t *testing.T) {
	v31, _ := mesh.ParseVersion("1.31.0")
	v30, _ := mesh.ParseVersion("1.30.3")
	v24, _ := mesh.ParseVersion("1.24.6")
	if f := mesh.FlagsOf(v31, nil); !f.AutoSendUnhealthyEndpoints || !f.IPAutoallocate || f.GatewayTransportConnectTimeoutSeconds != 15 ||
		f.DNSJitterMillis != 100 || f.RemoteJWKS != "false" || f.TraceSampling != 1 || len(f.Set) != 0 || len(f.Unknown) != 0 {
		t.Errorf("defaults of 1.31: %+v", f)
	}
	if f := mesh.FlagsOf(v30, nil); f.AutoSendUnhealthyEndpoints || f.StrictGatewayMerging || !f.SpawnUpstreamSpanForGateway {
		t.Errorf("defaults of 1.30: %+v", f)
	}
	if f := mesh.FlagsOf(v24, nil); f.IPAutoallocate || f.PickBestServiceNamespace || !f.InboundRetryPolicy || f.MaxConnectionsPerSocketEvent != 0 {
		t.Errorf("defaults of 1.24: %+v", f)
	}
	f := mesh.FlagsOf(v31, map[string]string{
		"PILOT_FILTER_GATEWAY_CLUSTER_CONFIG":            "true",
		"ENABLE_100_CONTINUE_HEADERS":                    "1", // the default, spelled otherwise
		"PILOT_HTTP10":                                   "perhaps",
		"PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT": "1m",
		"PILOT_NEW_THING":                                "x",
		"PILOT_PUSH_THROTTLE":                            "50",
		"ENABLE_INBOUND_RETRY_POLICY":                    "false", // no longer read
		"GOMEMLIMIT":                                     "1GiB",
	})
	if !f.FilterGatewayClusterConfig || f.HTTP10 || f.GatewayTransportConnectTimeoutSeconds != 60 || !f.InboundRetryPolicy {
		t.Errorf("flags: %+v", f)
	}
	if len(f.Set) != 2 || f.Set["PILOT_FILTER_GATEWAY_CLUSTER_CONFIG"] != "true" || f.Set["PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT"] != "1m" {
		t.Errorf("Set = %v", f.Set)
	}
	if len(f.Unknown) != 2 || f.Unknown[0] != "PILOT_HTTP10=perhaps" || f.Unknown[1] != "PILOT_NEW_THING" {
		t.Errorf("Unknown = %v", f.Unknown)
	}
}
