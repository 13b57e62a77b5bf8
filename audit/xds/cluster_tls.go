package xds

import (
	"cmp"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

const (
	tlsSocketName            = "envoy.transport_sockets.tls"
	rawBufferSocketName      = "envoy.transport_sockets.raw_buffer"
	proxyProtocolSocketName  = "envoy.transport_sockets.upstream_proxy_protocol"
	metadataCredentialSocket = "credential"
	metadataFileSocket       = "file-credential"

	secretURI        = "kubernetes://"
	gatewaySecretURI = "kubernetes-gateway://"
	configMapURI     = "configmap://"
	builtinURI       = "builtin://"
	invalidURI       = "invalid://"
	externalSDSURI   = "sds://"
)

// clientCertificates are the client certificates that a proxy's metadata names.
type clientCertificates struct{ chain, key, root string }

func (cb *clusterBuilder) certificates() clientCertificates {
	raw := cb.proxy.Metadata.Raw
	if raw["TLS_CLIENT_CERT_CHAIN"] == "" {
		return clientCertificates{}
	}
	return clientCertificates{raw["TLS_CLIENT_CERT_CHAIN"], raw["TLS_CLIENT_KEY"], raw["TLS_CLIENT_ROOT_CERT"]}
}

// applyTLS decides on TLS and writes the transport sockets (SIZE-5; Istio
// cluster_tls.go).
func (cb *clusterBuilder) applyTLS(c *cluster, o *policyOptions) {
	settings, auto := cb.tlsSettings(o)
	context, ok := cb.tlsContext(c, o, settings)
	if !ok {
		return
	}
	if context != nil {
		c.TransportSocket = tlsSocket(context)
	}
	auto = auto && settings.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL
	if !auto || c.GetClusterType() == nil && c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		return
	}
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{
		{
			Name:            "tlsMode-istio",
			Match:           &structpb.Struct{Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue("istio")}},
			TransportSocket: c.TransportSocket,
		},
		{Name: "tlsMode-disabled", Match: &structpb.Struct{}, TransportSocket: rawBufferSocket(rawBufferSocketName)},
	}
	c.TransportSocket = nil
}

// tlsSettings are the settings to use, and whether istiod chose them (auto
// mTLS); nil: plain text.
func (cb *clusterBuilder) tlsSettings(o *policyOptions) (_ *networking.ClientTLSSettings, auto bool) {
	certs := cb.certificates()
	if tls := o.policy.GetTls(); tls != nil {
		switch {
		case tls.GetMode() == networking.ClientTLSSettings_DISABLE, tls.GetMode() == networking.ClientTLSSettings_SIMPLE:
			return tls, false
		case certs != clientCertificates{}:
			if cb.view.Flags.PreferDestinationRuleTLS && o.service.External {
				return tls, false
			}
			return certs.settings(tls.GetSubjectAltNames(), tls.GetSni(), tls), false
		case tls.GetMode() != networking.ClientTLSSettings_ISTIO_MUTUAL:
			return tls, false
		}
		sans := tls.GetSubjectAltNames()
		if sans == nil {
			sans = o.accounts
		}
		return &networking.ClientTLSSettings{
			Mode: networking.ClientTLSSettings_ISTIO_MUTUAL, SubjectAltNames: sans,
			Sni: cmp.Or(tls.GetSni(), o.sni), InsecureSkipVerify: tls.GetInsecureSkipVerify(),
		}, false
	}
	autoMTLS := cb.view.Config.GetEnableAutoMtls() == nil || cb.view.Config.GetEnableAutoMtls().GetValue()
	if o.service.External || !autoMTLS || o.mtls == mesh.MTLSUnset || o.mtls == mesh.MTLSDisable {
		return nil, false
	}
	if certs != (clientCertificates{}) {
		return certs.settings(o.accounts, o.sni, nil), true
	}
	return &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL, SubjectAltNames: o.accounts, Sni: o.sni}, true
}

func (c clientCertificates) settings(sans []string, sni string, from *networking.ClientTLSSettings) *networking.ClientTLSSettings {
	return &networking.ClientTLSSettings{
		Mode: networking.ClientTLSSettings_MUTUAL, CaCertificates: c.root, ClientCertificate: c.chain, PrivateKey: c.key,
		SubjectAltNames: sans, Sni: sni, InsecureSkipVerify: from.GetInsecureSkipVerify(),
	}
}

// tlsContext makes the TLS context; nil: none. ok is false when istiod gives
// up on the settings and leaves the cluster without sockets.
func (cb *clusterBuilder) tlsContext(c *cluster, o *policyOptions, tls *networking.ClientTLSSettings) (_ *tlsv3.UpstreamTlsContext, ok bool) {
	if tls == nil {
		return nil, true
	}
	mode := tls.GetMode()
	custom := mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL
	secret := tls.GetCredentialName() != "" && !strings.HasPrefix(tls.GetCredentialName(), configMapURI)
	if secret && custom && cb.proxy.Kind == mesh.SidecarProxy && !o.selecting {
		return nil, true
	}
	switch mode {
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		return cb.istioMutual(c, o, tls), true
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		return cb.customTLS(c, o, tls)
	}
	return nil, true
}

func (cb *clusterBuilder) istioMutual(c *cluster, o *policyOptions, tls *networking.ClientTLSSettings) *tlsv3.UpstreamTlsContext {
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: commonTLS(), Sni: tls.GetSni()}
	common := context.CommonTlsContext
	common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{sdsSecret("default", sdsCluster)}
	common.ValidationContextType = validation(tls.GetSubjectAltNames(), sdsSecret("ROOTCA", sdsCluster), "")
	if context.Sni == "" && !c.dfp {
		context.Sni = c.Name
	}
	if cb.view.Flags.MetadataExchange && !cb.view.Flags.DisableMXALPN {
		common.AlpnProtocols = append(common.AlpnProtocols, "istio-peer-exchange")
	}
	common.AlpnProtocols = append(common.AlpnProtocols, "istio")
	if c.isHTTP2() {
		common.AlpnProtocols = append(common.AlpnProtocols, "h2")
	}
	if c.dfp && o.direction == outbound {
		c.setAutoSNI(tls)
	}
	return context
}

// customTLS is SIMPLE and MUTUAL of a DestinationRule.
func (cb *clusterBuilder) customTLS(c *cluster, o *policyOptions, tls *networking.ClientTLSSettings) (*tlsv3.UpstreamTlsContext, bool) {
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: commonTLS(), Sni: tls.GetSni()}
	common := context.CommonTlsContext
	c.setAutoSNI(tls)
	sans := tls.GetSubjectAltNames()
	if len(sans) == 0 && o.service != nil && !o.service.Kubernetes {
		sans = o.accounts
	}
	mutual := tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	skipVerify := tls.GetInsecureSkipVerify().GetValue()
	if name := tls.GetCredentialName(); name != "" {
		socket := cb.proxy.Metadata.Raw[metadataCredentialSocket] == "true"
		if mutual {
			common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{credentialSecret(name, socket)}
		}
		if !skipVerify {
			common.ValidationContextType = validation(sans, credentialSecret(name+"-cacert", socket), "")
		}
	} else {
		sds := sdsCluster
		if cb.proxy.Metadata.Raw[metadataFileSocket] == "true" {
			sds = sdsFilesCluster
		}
		if mutual {
			if tls.GetClientCertificate() == "" || tls.GetPrivateKey() == "" {
				return nil, false
			}
			common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{
				sdsSecret("file-cert:"+tls.GetClientCertificate()+"~"+tls.GetPrivateKey(), sds),
			}
		}
		if skipVerify {
			common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{}
		} else {
			root := cmp.Or(tls.GetCaCertificates(), "system")
			common.ValidationContextType = validation(sans, sdsSecret("file-root:"+root, sds), tls.GetCaCrl())
		}
	}
	if d := cb.view.Config.GetTlsDefaults(); d != nil {
		if len(d.GetEcdhCurves()) > 0 {
			common.TlsParams.EcdhCurves = d.GetEcdhCurves()
		}
		if len(d.GetCipherSuites()) > 0 {
			common.TlsParams.CipherSuites = d.GetCipherSuites()
		}
	}
	if c.isHTTP2() {
		common.AlpnProtocols = []string{"h2"}
	}
	return context, true
}

// setAutoSNI turns on auto_sni and auto_san_validation where the settings
// leave SNI and SANs open.
func (c *cluster) setAutoSNI(tls *networking.ClientTLSSettings) {
	skipVerify := tls.GetInsecureSkipVerify().GetValue()
	autoSNI := tls.GetSni() == ""
	autoSAN := (c.dfp || autoSNI && len(tls.GetSubjectAltNames()) == 0) && !skipVerify
	if c.dfp && (skipVerify || !autoSNI || !autoSAN) {
		config := &dfpclusterv3.ClusterConfig{}
		if custom := c.GetClusterType(); custom.GetTypedConfig().UnmarshalTo(config) == nil {
			config.AllowInsecureClusterOptions = true
			custom.TypedConfig = toAny(config)
		}
	}
	if !autoSNI && !autoSAN {
		return
	}
	o := c.options()
	if o.UpstreamHttpProtocolOptions == nil {
		o.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{}
	}
	o.UpstreamHttpProtocolOptions.AutoSni = autoSNI || o.UpstreamHttpProtocolOptions.AutoSni
	o.UpstreamHttpProtocolOptions.AutoSanValidation = autoSAN || o.UpstreamHttpProtocolOptions.AutoSanValidation
}
