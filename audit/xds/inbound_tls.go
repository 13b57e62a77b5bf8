package xds

import (
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// meshCiphers are the cipher suites of Istio mTLS (Istio
// pilot/pkg/security/authn/utils).
var meshCiphers = []string{
	"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
	"AES256-GCM-SHA384", "AES128-GCM-SHA256",
}

// meshTLS is the TLS context that terminates Istio mTLS.
func (in *inboundBuilder) meshTLS(http bool) *tlsv3.DownstreamTlsContext {
	config := in.view.Config
	common := &tlsv3.CommonTlsContext{AlpnProtocols: []string{"h2", "http/1.1"}}
	if !http && in.view.Flags.MetadataExchange && !in.view.Flags.DisableMXALPN {
		common.AlpnProtocols = []string{"istio-peer-exchange", "h2", "http/1.1"}
	}
	ciphers := meshCiphers
	if own := config.GetMeshMTLS().GetCipherSuites(); own != nil {
		ciphers = own
	}
	common.TlsParams = &tlsv3.TlsParameters{
		CipherSuites:              ciphers,
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
	if config.GetMeshMTLS().GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
		common.TlsParams.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	raw := in.p.Metadata.Raw
	serverTLS{}.fromFiles(common, in.p, raw["TLS_SERVER_ROOT_CERT"], true, certificateFiles{raw["TLS_SERVER_CERT_CHAIN"], raw["TLS_SERVER_KEY"]})
	if combined := common.GetCombinedValidationContext(); combined != nil {
		combined.DefaultValidationContext.MatchSubjectAltNames = in.trustDomainMatches()
	}
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: common, RequireClientCertificate: wrapperspb.Bool(true)}
}

// trustDomainMatches let peers of the mesh's trust domains in; nil:
// PILOT_SKIP_VALIDATE_TRUST_DOMAIN.
func (in *inboundBuilder) trustDomainMatches() []*matcherv3.StringMatcher {
	if in.view.Flags.SkipValidateTrustDomain {
		return nil
	}
	config := in.view.Config
	domains := append([]string{config.GetTrustDomain()}, config.GetTrustDomainAliases()...)
	for _, ca := range config.GetCaCertificates() {
		domains = append(domains, ca.GetTrustDomains()...)
	}
	var out []*matcherv3.StringMatcher
	known := map[string]bool{"": true}
	for _, domain := range domains {
		if !known[domain] {
			known[domain] = true
			out = append(out, prefixMatcher("spiffe://"+domain+"/", false))
		}
	}
	return out
}
