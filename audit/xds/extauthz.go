package xds

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tcpextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// extAuthz makes a provider's filters; prefix is what the names of the RBAC
// rules that ask for it begin with.
type extAuthz struct {
	http func(prefix string) *httpextauthzv3.ExtAuthz
	tcp  func(prefix string) *tcpextauthzv3.ExtAuthz // nil: the provider speaks HTTP
}

// extAuthz resolves a provider of CUSTOM policies; nil: it is not defined, not
// an external authorizer, or not valid (Istio
// pilot/pkg/security/authz/builder/extauthz.go).
func (b *Builder) extAuthz(name string) *extAuthz {
	var found *meshconfig.MeshConfig_ExtensionProvider
	for _, p := range b.view.Config.GetExtensionProviders() {
		if p.GetName() != name {
			continue
		}
		switch p.GetProvider().(type) {
		case *meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp, *meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc:
			if found != nil {
				return nil
			}
			found = p
		}
	}
	if found == nil || b.view.Behaviours.CustomAuthzByProvider && !providerNameValid(name) {
		return nil
	}
	if http := found.GetEnvoyExtAuthzHttp(); http != nil {
		return b.extAuthzHTTP(http)
	}
	return b.extAuthzGRPC(found.GetEnvoyExtAuthzGrpc())
}

func providerNameValid(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
	})
}

func (b *Builder) extAuthzHTTP(set *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider) *extAuthz {
	host, cluster, ok := b.providerCluster(set.GetService(), set.GetPort())
	status, valid := statusOnError(set.GetStatusOnError())
	path := set.GetPathPrefix()
	if _, err := url.Parse(path); err != nil || path != "" && !strings.HasPrefix(path, "/") {
		valid = false
	}
	for _, headers := range [][]string{
		set.GetIncludeRequestHeadersInCheck(), set.GetIncludeHeadersInCheck(),
		set.GetHeadersToDownstreamOnDeny(), set.GetHeadersToDownstreamOnAllow(), set.GetHeadersToUpstreamOnAllow(),
	} {
		valid = valid && !slices.Contains(headers, "*")
	}
	if !ok || !valid || !portValid(set.GetPort()) {
		return nil
	}
	service := &httpextauthzv3.HttpService{
		PathPrefix: path,
		ServerUri: &corev3.HttpUri{
			Timeout:          orTenMinutes(set.GetTimeout()),
			Uri:              "http://" + host,
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
		},
	}
	if headers := set.GetIncludeAdditionalHeadersInCheck(); len(headers) > 0 {
		service.AuthorizationRequest = &httpextauthzv3.AuthorizationRequest{}
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd, &corev3.HeaderValue{Key: name, Value: headers[name]})
		}
	}
	if len(set.GetHeadersToUpstreamOnAllow())+len(set.GetHeadersToDownstreamOnDeny())+len(set.GetHeadersToDownstreamOnAllow()) > 0 {
		service.AuthorizationResponse = &httpextauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders:        headerList(set.GetHeadersToUpstreamOnAllow()),
			AllowedClientHeaders:          headerList(set.GetHeadersToDownstreamOnDeny()),
			AllowedClientHeadersOnSuccess: headerList(set.GetHeadersToDownstreamOnAllow()),
		}
	}
	allowed := headerList(set.GetIncludeRequestHeadersInCheck())
	if allowed == nil {
		allowed = headerList(set.GetIncludeHeadersInCheck())
	}
	return &extAuthz{http: func(prefix string) *httpextauthzv3.ExtAuthz {
		return &httpextauthzv3.ExtAuthz{
			StatusOnError:         status,
			FailureModeAllow:      set.GetFailOpen(),
			TransportApiVersion:   corev3.ApiVersion_V3,
			Services:              &httpextauthzv3.ExtAuthz_HttpService{HttpService: service},
			FilterEnabledMetadata: askedFor(httpRBACName, prefix),
			WithRequestBody:       requestBody(set.GetIncludeRequestBodyInCheck()),
			AllowedHeaders:        allowed,
		}
	}}
}

func (b *Builder) extAuthzGRPC(set *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider) *extAuthz {
	host, cluster, ok := b.providerCluster(set.GetService(), set.GetPort())
	status, valid := statusOnError(set.GetStatusOnError())
	if !ok || !valid || !portValid(set.GetPort()) {
		return nil
	}
	service := grpcService(cluster, host)
	service.Timeout = orTenMinutes(set.GetTimeout())
	return &extAuthz{
		http: func(prefix string) *httpextauthzv3.ExtAuthz {
			return &httpextauthzv3.ExtAuthz{
				StatusOnError:         status,
				FailureModeAllow:      set.GetFailOpen(),
				Services:              &httpextauthzv3.ExtAuthz_GrpcService{GrpcService: service},
				FilterEnabledMetadata: askedFor(httpRBACName, prefix),
				TransportApiVersion:   corev3.ApiVersion_V3,
				WithRequestBody:       requestBody(set.GetIncludeRequestBodyInCheck()),
			}
		},
		tcp: func(prefix string) *tcpextauthzv3.ExtAuthz {
			return &tcpextauthzv3.ExtAuthz{
				StatPrefix:            "tcp.",
				FailureModeAllow:      set.GetFailOpen(),
				TransportApiVersion:   corev3.ApiVersion_V3,
				GrpcService:           service,
				FilterEnabledMetadata: askedFor(tcpRBACName, prefix),
			}
		},
	}
}

func portValid(port uint32) bool { return 1 <= port && port <= 65535 }

func orTenMinutes(d *durationpb.Duration) *durationpb.Duration {
	if d == nil {
		return &durationpb.Duration{Seconds: 600}
	}
	return d
}

func statusOnError(text string) (*typev3.HttpStatus, bool) {
	if text == "" {
		return nil, true
	}
	code, err := strconv.ParseInt(text, 10, 32)
	if _, known := typev3.StatusCode_name[int32(code)]; err != nil || !known {
		return nil, false
	}
	return &typev3.HttpStatus{Code: typev3.StatusCode(code)}, true
}

func requestBody(set *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody) *httpextauthzv3.BufferSettings {
	if set == nil {
		return nil
	}
	return &httpextauthzv3.BufferSettings{
		MaxRequestBytes:     set.GetMaxRequestBytes(),
		AllowPartialMessage: set.GetAllowPartialMessage(),
		PackAsBytes:         set.GetPackAsBytes(),
	}
}

func headerList(headers []string) *matcherv3.ListStringMatcher {
	if len(headers) == 0 {
		return nil
	}
	list := &matcherv3.ListStringMatcher{}
	for _, h := range headers {
		m := exactMatcher(h, true)
		if suffix, ok := strings.CutPrefix(h, "*"); ok {
			m = suffixMatcher(suffix, true)
		} else if prefix, ok := strings.CutSuffix(h, "*"); ok {
			m = prefixMatcher(prefix, true)
		}
		list.Patterns = append(list.Patterns, m)
	}
	return list
}

// askedFor is met when an RBAC filter's shadow rule of the prefix matched.
func askedFor(filter, prefix string) *matcherv3.MetadataMatcher {
	return metadataMatcher(filter, []string{extAuthzPrefix + shadowPolicyID}, stringValue(prefixMatcher(prefix, false)))
}
