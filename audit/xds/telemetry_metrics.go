package xds

import (
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"istio.io/api/envoy/extensions/stats"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"
)

// statsFilters are the istio.stats filters: one for each Prometheus provider
// that metrics or access logs resolve to, by name (SIZE-17).
func (b *Builder) statsFilters(applied []*telemetry.Telemetry, class listenerClass) ([]*hcmv3.HttpFilter, []*listenerv3.Filter) {
	var metrics []*telemetry.Metrics
	for _, t := range applied {
		metrics = append(metrics, t.GetMetrics()...)
	}
	providers := b.mergeMetrics(metrics)
	var http []*hcmv3.HttpFilter
	var tcp []*listenerv3.Filter
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		if _, ok := b.provider(name).GetProvider().(*meshconfig.MeshConfig_ExtensionProvider_Prometheus); !ok {
			continue
		}
		if config := providers[name].config(class); config != nil {
			http = append(http, httpFilter(statsFilterName, config))
			tcp = append(tcp, networkFilter(statsFilterName, config))
		}
	}
	return http, tcp
}

// metricsProvider is what Telemetry objects together say of one provider.
type metricsProvider struct {
	modes    map[telemetry.WorkloadMode]map[string]*metricOverride // nil mode: never mentioned
	off      map[telemetry.WorkloadMode]bool
	interval *durationpb.Duration
}

type metricOverride struct {
	disabled bool
	tags     map[string]*telemetry.MetricsOverrides_TagOverride
}

// mergeMetrics resolves the providers and their overrides (Istio
// pilot/pkg/model/telemetry.go mergeMetrics).
func (b *Builder) mergeMetrics(metrics []*telemetry.Metrics) map[string]*metricsProvider {
	defaults := b.view.Config.GetDefaultProviders().GetMetrics()
	providers := map[string]*metricsProvider{}
	provider := func(name string) *metricsProvider {
		if providers[name] == nil {
			providers[name] = &metricsProvider{
				modes: map[telemetry.WorkloadMode]map[string]*metricOverride{},
				off:   map[telemetry.WorkloadMode]bool{},
			}
		}
		return providers[name]
	}
	if len(metrics) == 0 {
		for _, name := range defaults {
			provider(name)
		}
	}
	inScope, parents := defaults, defaults
	for _, m := range metrics {
		if names := providerNames(m.GetProviders()); len(names) > 0 {
			inScope = names
		}
	}
	for _, m := range metrics {
		names := providerNames(m.GetProviders())
		if len(names) == 0 {
			names = parents
		}
		parents = names
		for _, name := range names {
			if slices.Contains(inScope, name) {
				provider(name).apply(m)
			}
		}
	}
	return providers
}

func (mp *metricsProvider) apply(m *telemetry.Metrics) {
	if m.GetReportingInterval() != nil {
		mp.interval = m.GetReportingInterval()
	}
	both := []telemetry.WorkloadMode{telemetry.WorkloadMode_CLIENT, telemetry.WorkloadMode_SERVER}
	for _, mode := range both {
		if mp.modes[mode] == nil {
			mp.modes[mode] = map[string]*metricOverride{}
		}
	}
	for _, o := range m.GetOverrides() {
		modes := both
		if mode := o.GetMatch().GetMode(); mode == telemetry.WorkloadMode_CLIENT || mode == telemetry.WorkloadMode_SERVER {
			modes = []telemetry.WorkloadMode{mode}
		}
		names, all := matchedMetrics(o.GetMatch())
		for _, mode := range modes {
			if all && o.GetDisabled().GetValue() {
				mp.off[mode] = true
				continue
			}
			delete(mp.off, mode)
			for _, name := range names {
				override := mp.modes[mode][name]
				if override == nil {
					override = &metricOverride{tags: map[string]*telemetry.MetricsOverrides_TagOverride{}}
					mp.modes[mode][name] = override
				}
				if o.Disabled != nil {
					override.disabled = o.GetDisabled().GetValue()
				}
				maps.Copy(override.tags, o.GetTagOverrides())
			}
		}
	}
}

// matchedMetrics are the metrics that an override is for, and whether it is for all.
func matchedMetrics(match *telemetry.MetricSelector) (names []string, all bool) {
	switch m := match.GetMetricMatch().(type) {
	case *telemetry.MetricSelector_CustomMetric:
		return []string{m.CustomMetric}, false
	case *telemetry.MetricSelector_Metric:
		if m.Metric != telemetry.MetricSelector_ALL_METRICS {
			return []string{m.Metric.String()}, false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(telemetry.MetricSelector_IstioMetric_value)) {
		if name != telemetry.MetricSelector_ALL_METRICS.String() {
			names = append(names, name)
		}
	}
	return names, true
}

var prometheusMetric = map[string]string{
	"REQUEST_COUNT":          "requests_total",
	"REQUEST_DURATION":       "request_duration_milliseconds",
	"REQUEST_SIZE":           "request_bytes",
	"RESPONSE_SIZE":          "response_bytes",
	"TCP_OPENED_CONNECTIONS": "tcp_connections_opened_total",
	"TCP_CLOSED_CONNECTIONS": "tcp_connections_closed_total",
	"TCP_SENT_BYTES":         "tcp_sent_bytes_total",
	"TCP_RECEIVED_BYTES":     "tcp_received_bytes_total",
	"GRPC_REQUEST_MESSAGES":  "request_messages_total",
	"GRPC_RESPONSE_MESSAGES": "response_messages_total",
}

// config is the istio.stats config for a class; nil: its metrics are off.
func (mp *metricsProvider) config(class listenerClass) *anypb.Any {
	mode := workloadMode(class)
	if mp.off[mode] {
		return nil
	}
	config := &stats.PluginConfig{
		DisableHostHeaderFallback: class != outboundClass,
		TcpReportingDuration:      mp.interval,
	}
	overrides := mp.modes[mode]
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		o := overrides[name]
		metric := &stats.MetricConfig{Dimensions: map[string]string{}, Name: name, Drop: o.disabled}
		if known := prometheusMetric[name]; known != "" {
			metric.Name = known
		}
		for _, tag := range slices.Sorted(maps.Keys(o.tags)) {
			switch set := o.tags[tag]; set.GetOperation() {
			case telemetry.MetricsOverrides_TagOverride_REMOVE:
				metric.TagsToRemove = append(metric.TagsToRemove, tag)
			case telemetry.MetricsOverrides_TagOverride_UPSERT:
				metric.Dimensions[tag] = set.GetValue()
			default:
				metric.Dimensions[tag] = ""
			}
		}
		config.Metrics = append(config.Metrics, metric)
	}
	return toAny(config)
}
