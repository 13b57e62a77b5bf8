package xds

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// patchesRoutes reports patches that may change a route configuration.
func patchesRoutes(e *envoyPatches) bool {
	for _, kind := range []networking.EnvoyFilter_ApplyTo{
		networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE,
	} {
		if len(e.of(kind)) > 0 {
			return true
		}
	}
	return false
}

// patchRoutes applies the patches to a route configuration.
func (b *Builder) patchRoutes(rc *routev3.RouteConfiguration, e *envoyPatches, context networking.EnvoyFilter_PatchContext, p *mesh.Proxy) {
}

// originParts are the parts of a patched route configuration, with the origin
// of the virtual hosts that were there before.
func originParts(rc *routev3.RouteConfiguration, hosts []virtualHost) []result.Part {
	parts := routeParts(rc)
	byName := make(map[string]*virtualHost, len(hosts))
	for i := range hosts {
		byName[hosts[i].name] = &hosts[i]
	}
	for i := range parts {
		if vh := byName[parts[i].Name]; vh != nil {
			parts[i].By = vh.by
			if vh.service != nil {
				parts[i].Service = vh.service.Host
			}
		}
	}
	return parts
}
