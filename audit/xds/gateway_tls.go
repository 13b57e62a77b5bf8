package xds

import (
	"slices"
	"strings"
	"unicode"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

const secretCASuffix = "-cacert"

// serverCiphers are the cipher suites that a Gateway may name (Istio
// pkg/config/security.ValidCipherSuites).
var serverCiphers = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
	"ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
	"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "DES-CBC3-SHA",
}

// serverTLS is how a server terminates TLS.
type serverTLS struct {
	settings *networking.ServerTLSSettings
	quic     bool
	// tcp: the server's protocol is neither HTTP nor HTTPS.
	tcp bool
}

// context is the TLS context of a server that terminates TLS (Istio
// networking/core BuildListenerTLSContext).
func (t serverTLS) context(b *Builder, p *mesh.Proxy) *tlsv3.DownstreamTlsContext {
	mode := t.settings.GetMode()
	common := &tlsv3.CommonTlsContext{AlpnProtocols: t.alpn(b.view)}
	demand := mode == networking.ServerTLSSettings_MUTUAL || mode == networking.ServerTLSSettings_ISTIO_MUTUAL
	if t.quic {
		demand = false
	}
	validate := demand || mode == networking.ServerTLSSettings_OPTIONAL_MUTUAL
	switch {
	case mode == networking.ServerTLSSettings_ISTIO_MUTUAL:
		raw := p.Metadata.Raw
		t.fromFiles(common, p, raw["TLS_SERVER_ROOT_CERT"], validate,
			certificateFiles{raw["TLS_SERVER_CERT_CHAIN"], raw["TLS_SERVER_KEY"]})
	case len(t.settings.GetCredentialNames()) > 0 || t.settings.GetCredentialName() != "":
		b.fromCredentials(common, t.settings, p)
	default:
		files := []certificateFiles{{t.settings.GetServerCertificate(), t.settings.GetPrivateKey()}}
		if certs := t.settings.GetTlsCertificates(); len(certs) > 0 {
			files = nil
			for _, c := range certs {
				files = append(files, certificateFiles{c.GetServerCertificate(), c.GetPrivateKey()})
			}
		}
		t.fromFiles(common, p, t.settings.GetCaCertificates(), validate, files...)
	}
	switch mode {
	case networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		common.TlsParams = serverTLSParams(t.settings, b.view.Config.GetTlsDefaults())
	}
	return &tlsv3.DownstreamTlsContext{
		CommonTlsContext:         common,
		RequireClientCertificate: wrapperspb.Bool(demand),
	}
}

func (t serverTLS) alpn(view *mesh.View) []string {
	switch {
	case t.quic:
		return []string{"h3"}
	case t.tcp && t.settings.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL && !view.Flags.DisableMXALPN:
		return []string{"istio-peer-exchange", "h2", "http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

// certificateFiles are the paths of a certificate and its key.
type certificateFiles struct{ certificate, key string }

// fromFiles makes the agent serve files, or the workload's own certificate
// where no file is named (Istio security/model.ApplyToCommonTLSContext).
func (t serverTLS) fromFiles(common *tlsv3.CommonTlsContext, p *mesh.Proxy, root string, validate bool, files ...certificateFiles) {
	server := sdsCluster
	if p.Metadata.Raw[metadataFileSocket] == "true" {
		server = sdsFilesCluster
	}
	for _, f := range files {
		secret := sdsSecret("default", sdsCluster)
		if f.certificate != "" && f.key != "" {
			secret = sdsSecret("file-cert:"+f.certificate+"~"+f.key, server)
		}
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, secret)
	}
	if !validate {
		return
	}
	check := &tlsv3.CertificateValidationContext{MatchSubjectAltNames: exactMatches(t.settings.GetSubjectAltNames())}
	if crl := t.settings.GetCaCrl(); crl != "" {
		check.Crl = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: crl}}
	}
	secret := sdsSecret("ROOTCA", sdsCluster)
	if root != "" {
		secret = sdsSecret("file-root:"+root, server)
	}
	t.validateBy(common, check, secret)
}

// fromCredentials makes istiod serve Secrets (Istio
// security/model.ApplyCredentialSDSToServerCommonTLSContext).
func (b *Builder) fromCredentials(common *tlsv3.CommonTlsContext, settings *networking.ServerTLSSettings, p *mesh.Proxy) {
	names := settings.GetCredentialNames()
	if len(names) == 0 {
		names = []string{settings.GetCredentialName()}
	}
	for _, name := range names {
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, b.serverSecret(name, p))
	}
	root := settings.GetCaCertCredentialName()
	if root == "" {
		root = names[0] + secretCASuffix
	}
	sans := exactMatches(settings.GetSubjectAltNames())
	switch mode := settings.GetMode(); {
	case mode == networking.ServerTLSSettings_MUTUAL || mode == networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		serverTLS{settings: settings}.validateBy(common, &tlsv3.CertificateValidationContext{
			MatchSubjectAltNames:  sans,
			VerifyCertificateSpki: settings.GetVerifyCertificateSpki(),
			VerifyCertificateHash: settings.GetVerifyCertificateHash(),
		}, b.serverSecret(root, p))
	case len(sans) > 0:
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{MatchSubjectAltNames: sans},
		}
	}
}

func (t serverTLS) validateBy(common *tlsv3.CommonTlsContext, check *tlsv3.CertificateValidationContext, root *tlsv3.SdsSecretConfig) {
	if t.settings.GetInsecureSkipVerify().GetValue() {
		check.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext:         check,
			ValidationContextSdsSecretConfig: root,
		},
	}
}

// serverSecret asks for the secret of a credentialName, which for "sds://" names
// the first sds extension provider has (Istio
// security/model.ConstructSdsSecretConfigForCredential). Nil for an empty name.
func (b *Builder) serverSecret(name string, p *mesh.Proxy) *tlsv3.SdsSecretConfig {
	if name == "" {
		return nil
	}
	socket := p.Metadata.Raw[metadataCredentialSocket] == "true"
	external, ok := strings.CutPrefix(name, externalSDSURI)
	if !ok || socket {
		return credentialSecret(name, socket)
	}
	for _, provider := range b.view.Config.GetExtensionProviders() {
		sds := provider.GetSds()
		if sds == nil {
			continue
		}
		host, ok := b.soleService(sds.GetService())
		if !ok {
			return nil
		}
		config := sdsOver(outboundName(int(sds.GetPort()), "", host))
		config.GetApiConfigSource().GetGrpcServices()[0].GetEnvoyGrpc().Authority = host
		return &tlsv3.SdsSecretConfig{Name: external, SdsConfig: config}
	}
	return credentialSecret(name, false)
}

// soleService finds the service of an extension provider: "ns/host", or a host
// that one namespace only has (Istio model.LookupCluster).
func (b *Builder) soleService(name string) (host string, ok bool) {
	if parts := strings.Split(name, "/"); len(parts) == 2 {
		return parts[1], b.view.Service(parts[1], parts[0]) != nil
	}
	services := b.view.ServicesByHost(name)
	for _, s := range services {
		if s.Namespace != services[0].Namespace {
			return "", false
		}
	}
	return name, len(services) > 0
}

// serverTLSParams are the mesh's tlsDefaults under the server's own settings;
// nil if neither says anything.
func serverTLSParams(settings *networking.ServerTLSSettings, defaults *meshconfig.MeshConfig_TLSConfig) *tlsv3.TlsParameters {
	out, set := &tlsv3.TlsParameters{}, false
	if curves := defaults.GetEcdhCurves(); len(curves) > 0 {
		out.EcdhCurves, set = curves, true
	}
	if ciphers := defaults.GetCipherSuites(); len(ciphers) > 0 {
		out.CipherSuites, set = ciphers, true
	}
	switch defaults.GetMinProtocolVersion() {
	case meshconfig.MeshConfig_TLSConfig_TLS_AUTO:
	case meshconfig.MeshConfig_TLSConfig_TLSV1_3:
		out.TlsMinimumProtocolVersion, set = tlsv3.TlsParameters_TLSv1_3, true
	default:
		out.TlsMinimumProtocolVersion, set = tlsv3.TlsParameters_TLSv1_2, true
	}
	if v := settings.GetMinProtocolVersion(); v != networking.ServerTLSSettings_TLS_AUTO {
		out.TlsMinimumProtocolVersion, set = protocolVersion(v), true
	}
	if ciphers := knownCiphers(settings.GetCipherSuites()); len(ciphers) > 0 {
		out.CipherSuites, set = ciphers, true
	}
	if v := settings.GetMaxProtocolVersion(); v != networking.ServerTLSSettings_TLS_AUTO {
		out.TlsMaximumProtocolVersion, set = protocolVersion(v), true
	}
	if !set {
		return nil
	}
	return out
}

// protocolVersion maps a version; the two APIs number them alike.
func protocolVersion(v networking.ServerTLSSettings_TLSProtocol) tlsv3.TlsParameters_TlsProtocol {
	out := tlsv3.TlsParameters_TlsProtocol(v)
	if out < tlsv3.TlsParameters_TLS_AUTO || out > tlsv3.TlsParameters_TLSv1_3 {
		return tlsv3.TlsParameters_TLS_AUTO
	}
	return out
}

// knownCiphers leaves out suites that Envoy would not take, and repetitions.
func knownCiphers(suites []string) []string {
	var out []string
	for _, s := range suites {
		expression := s == "" || s == "ALL" || !unicode.IsNumber(rune(s[0])) && !unicode.IsLetter(rune(s[0]))
		if (expression || slices.Contains(serverCiphers, s)) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
