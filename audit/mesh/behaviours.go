package mesh

// Behaviours are the differences between Istio versions that no flag controls.
// Each field is set from one row of the table below; code asks for the
// behaviour, never for a version.
type Behaviours struct {
	DefaultExportToNames bool // VIS-1: names and "~" of mesh default exportTo lists are honoured
	EgressExclusions     bool // SC-7: a leading "~" in egress hosts excludes
	CombinedPrivateOrder bool // VIS-2: private and exported services in one list by creation

	NamespaceTrafficDistribution bool // REG-9: the Namespace's annotation is inherited
	SameZoneTrafficDistribution  bool // REG-9: PreferSameZone and PreferSameNode are known
	TrafficDistribution          bool // REG-9: read at all
	HiddenWithoutEndpoints       bool // EDS-6: EndpointSlices of a Service with exportTo "~" are not sent on
	TerminatingEndpoints         bool // TRAP-40: unready endpoints that terminate, or do not say that they do not, are Terminating
	SubsetTLSFallback            bool // EDS-9: a subset without TLS settings has those of its DestinationRule
	NetworkGatewayPorts          bool // EDS-9: a Service is a network's gateway only with the gateway's port, and sidecars need one
	NetworkGatewayReach          bool // EDS-9: proxies without a network go through gateways, and only those of the proxy's address families
	LocalityLabel                bool // EDS-8: the label topology.istio.io/locality is read
	DNSFailoverPriority          bool // EDS-8: failoverPriority has an effect on clusters that resolve by DNS
	NetworkFailover              bool // EDS-8: a leading network label in failoverPriority puts other networks behind the proxy's own
	EntryHostCluster             bool // SIZE-10: the endpoint that is a ServiceEntry's host has the cluster's name
	EntryEndpointNames           bool // SIZE-10: endpoints that a ServiceEntry lists, or its host, have its name and namespace
	ServiceEntryVisibility       bool // VIS-4: meshConfig.serviceEntryVisibility is obeyed
	ExactHostLookup              bool // SC-10: egress hosts that are all exact are looked up, not matched
	GatewayExtras                bool // CDS-11, CDS-13: a filtered router without a Gateway keeps the extras; "ns/host" of a provider is scoped; EnvoyFilters' references count
	SDSProvider                  bool // CDS-13: an sds provider's service is kept; a lightstep or opencensus one's no longer

	DNSConnectStrategy bool // REG-18: the annotation istio.io/connect-strategy is read
	DynamicDNSFamily   bool // CDS-4: the DNS caches of DYNAMIC_DNS follow the proxy's address families
	DynamicDNSClusters bool // CDS-4: wildcard DYNAMIC_DNS hosts have a dynamic forward proxy cluster
	DNSJitter          bool // SIZE-8: clusters that resolve by DNS have dns_jitter
	DNSResolverConfig  bool // SIZE-8: … and a typed c-ares resolver
	MeshTrafficPolicy  bool // FLAG-89: meshConfig.defaultTrafficPolicy is a base under every DestinationRule
	UpgradeBeforePool  bool // SIZE-7: the upgrade to HTTP/2 comes before the connection pool's settings
	ZoneAwareLB        bool // FLAG-89: meshConfig.zoneAwareLbSetting and the DestinationRule's are obeyed

	ZipkinCollectorService bool // SIZE-15: proxies of 1.29 on get the Zipkin collector as an HTTP service

	CustomAuthzByProvider bool // SIZE-18: rules of CUSTOM policies are named after their provider
	HTTPInspectorAlone    bool // SIZE-13: an outbound listener with an HTTP inspector has a TLS inspector only if a chain matches server names
	BoundListenerAccepts  bool // FLAG-60: outbound listeners that bind to their port have the limit of accepted connections too
	ConnectionSettings    bool // SIZE-15: ProxyConfig.connectionSettings is obeyed

	WasmFailurePolicy    bool // SIZE-27: a WasmPlugin's failStrategy is a failure policy, for proxies of 1.25 on; before, the flag fail_open
	WasmFailurePolicyAll bool // SIZE-27: … for all proxies

	LowercaseHosts bool // RDS-14: VirtualService hosts and service hosts match whatever their case
	RetryBackoff   bool // SIZE-23: retries.backoff and retryIgnorePreviousHosts are obeyed
}

// behaviour is one row: from which exact versions a behaviour holds.
type behaviour struct {
	rule  string    // digest id
	since []Version // first release of each line that has it, newest line last
	set   func(*Behaviours)
}

// behaviours is the one table of version differences.
var behaviours = []behaviour{
	{"VIS-1", []Version{{1, 30, 3, ""}, {1, 31, 0, ""}}, func(b *Behaviours) { b.DefaultExportToNames = true }},
	{"VIS-2", []Version{{1, 30, 3, ""}, {1, 31, 0, ""}}, func(b *Behaviours) { b.CombinedPrivateOrder = true }},
	{"VIS-4", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.ServiceEntryVisibility = true }},
	{"SC-7", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.EgressExclusions = true }},
	{"SC-10", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.ExactHostLookup = true }},
	{"CDS-13", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.GatewayExtras = true }},
	{"CDS-13", []Version{{1, 28, 0, ""}}, func(b *Behaviours) { b.SDSProvider = true }},
	{"REG-9", []Version{{1, 25, 0, ""}}, func(b *Behaviours) { b.TrafficDistribution = true }},
	{"REG-9", []Version{{1, 28, 0, ""}}, func(b *Behaviours) { b.SameZoneTrafficDistribution = true }},
	{"REG-9", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.NamespaceTrafficDistribution = true }},
	{"REG-18", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.DNSConnectStrategy = true }},
	{"CDS-4", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.DynamicDNSClusters = true }},
	{"SIZE-8", []Version{{1, 25, 0, ""}}, func(b *Behaviours) { b.DNSJitter = true }},
	{"SIZE-8", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.DNSResolverConfig = true }},
	{"FLAG-89", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.MeshTrafficPolicy, b.ZoneAwareLB = true, true }},
	{"SIZE-15", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.ConnectionSettings = true }},
	{"SIZE-15", []Version{{1, 29, 0, ""}}, func(b *Behaviours) { b.ZipkinCollectorService = true }},
	{"SIZE-18", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.CustomAuthzByProvider = true }},
	{"RDS-14", []Version{{1, 27, 0, ""}}, func(b *Behaviours) { b.LowercaseHosts = true }},
	{"SIZE-23", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.RetryBackoff = true }},
	{"EDS-9", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.SubsetTLSFallback = true }},
	{"EDS-9", []Version{{1, 29, 0, ""}}, func(b *Behaviours) { b.NetworkGatewayPorts = true }},
	{"EDS-9", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.NetworkGatewayReach = true }},
	{"EDS-8", []Version{{1, 29, 0, ""}}, func(b *Behaviours) { b.LocalityLabel = true }},
	{"EDS-8", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.DNSFailoverPriority = true }},
	{"EDS-8", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.NetworkFailover = true }},
	{"SIZE-10", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.EntryHostCluster = true }},
	{"SIZE-10", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.EntryEndpointNames = true }},
	{"CDS-4", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.DynamicDNSFamily = true }},
	{"SIZE-7", []Version{{1, 28, 0, ""}}, func(b *Behaviours) { b.UpgradeBeforePool = true }},
	{"SIZE-13", []Version{{1, 25, 0, ""}}, func(b *Behaviours) { b.HTTPInspectorAlone = true }},
	{"FLAG-60", []Version{{1, 28, 0, ""}}, func(b *Behaviours) { b.BoundListenerAccepts = true }},
	{"SIZE-27", []Version{{1, 25, 0, ""}}, func(b *Behaviours) { b.WasmFailurePolicy = true }},
	{"SIZE-27", []Version{{1, 29, 0, ""}}, func(b *Behaviours) { b.WasmFailurePolicyAll = true }},
	{"EDS-6", []Version{{1, 25, 0, ""}}, func(b *Behaviours) { b.HiddenWithoutEndpoints = true }},
	{"TRAP-40", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.TerminatingEndpoints = true }},
}

// BehavioursOf tells what an istiod of version v does.
func BehavioursOf(v Version) Behaviours {
	var b Behaviours
	for _, row := range behaviours {
		if reached(v, row.since) {
			row.set(&b)
		}
	}
	return b
}

// reached reports that v is in a listed line at or after its release, or in a
// line newer than all listed.
func reached(v Version, since []Version) bool {
	for i, s := range since {
		sameLine := v.Major == s.Major && v.Minor == s.Minor
		if (sameLine || i == len(since)-1) && v.AtLeast(s.Major, s.Minor, s.Patch) {
			return true
		}
	}
	return false
}
