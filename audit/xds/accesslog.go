package xds

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	withoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"
)

// textLogFormat is Istio's default format.
const textLogFormat = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" " +
	"%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% " +
	"\"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% " +
	"%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" " +
	"\"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% " +
	"%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n"

// jsonLogFormat is Istio's default JSON format.
var jsonLogFormat = func() *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for name, value := range map[string]string{
		"start_time":                        "%START_TIME%",
		"route_name":                        "%ROUTE_NAME%",
		"method":                            "%REQ(:METHOD)%",
		"path":                              "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
		"protocol":                          "%PROTOCOL%",
		"response_code":                     "%RESPONSE_CODE%",
		"response_flags":                    "%RESPONSE_FLAGS%",
		"response_code_details":             "%RESPONSE_CODE_DETAILS%",
		"connection_termination_details":    "%CONNECTION_TERMINATION_DETAILS%",
		"bytes_received":                    "%BYTES_RECEIVED%",
		"bytes_sent":                        "%BYTES_SENT%",
		"duration":                          "%DURATION%",
		"upstream_service_time":             "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
		"x_forwarded_for":                   "%REQ(X-FORWARDED-FOR)%",
		"user_agent":                        "%REQ(USER-AGENT)%",
		"request_id":                        "%REQ(X-REQUEST-ID)%",
		"authority":                         "%REQ(:AUTHORITY)%",
		"upstream_host":                     "%UPSTREAM_HOST%",
		"upstream_cluster":                  "%UPSTREAM_CLUSTER_RAW%",
		"upstream_local_address":            "%UPSTREAM_LOCAL_ADDRESS%",
		"downstream_local_address":          "%DOWNSTREAM_LOCAL_ADDRESS%",
		"downstream_remote_address":         "%DOWNSTREAM_REMOTE_ADDRESS%",
		"requested_server_name":             "%REQUESTED_SERVER_NAME%",
		"upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
	} {
		fields[name] = structpb.NewStringValue(value)
	}
	return &structpb.Struct{Fields: fields}
}()

var withoutQuery = &corev3.TypedExtensionConfig{
	Name:        "envoy.formatter.req_without_query",
	TypedConfig: toAny(&withoutqueryv3.ReqWithoutQuery{}),
}

// noRouteLogs lets a listener log only what no filter chain took.
func noRouteLogs() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
	}}
}

// lookUpLogs fills in the access logs: the Telemetry's and default providers',
// else the mesh config's (SIZE-15; Istio
// pilot/pkg/networking/core/accesslog.go).
func (b *Builder) lookUpLogs(applied []*telemetry.Telemetry, class listenerClass, look *classLookups) {
	config := b.view.Config
	listenerLogs := !config.GetDisableEnvoyListenerLog()
	specs, fallback := b.logSpecs(applied, class)
	if fallback || len(specs) == 0 {
		if path := config.GetAccessLogFile(); path != "" {
			log := b.meshFileLog(path)
			look.httpLog, look.tcpLog = append(look.httpLog, log), append(look.tcpLog, log)
			if listenerLogs {
				own := &accesslogv3.AccessLog{Name: log.Name, ConfigType: log.ConfigType, Filter: noRouteLogs()}
				look.listenerLog = append(look.listenerLog, own)
			}
		}
		if config.GetEnableEnvoyAccessLogService() {
			look.httpLog = append(look.httpLog, legacyServiceLog("http_envoy_accesslog", true))
			look.tcpLog = append(look.tcpLog, legacyServiceLog("tcp_envoy_accesslog", false))
			if listenerLogs {
				own := legacyServiceLog("listener_envoy_accesslog", false)
				own.Filter = noRouteLogs()
				look.listenerLog = append(look.listenerLog, own)
			}
		}
		return
	}
	for _, s := range specs {
		if s.disabled {
			continue
		}
		own := celFilter(s.filter)
		log := &accesslogv3.AccessLog{Name: s.log.Name, ConfigType: s.log.ConfigType, Filter: own}
		look.httpLog, look.tcpLog = append(look.httpLog, log), append(look.tcpLog, log)
		if !listenerLogs {
			continue
		}
		filter := noRouteLogs()
		if own != nil {
			filter = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
				AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{filter, own}},
			}}
		}
		look.listenerLog = append(look.listenerLog, &accesslogv3.AccessLog{Name: s.log.Name, ConfigType: s.log.ConfigType, Filter: filter})
	}
}

func celFilter(filter *telemetry.AccessLogging_Filter) *accesslogv3.AccessLogFilter {
	if filter == nil {
		return nil
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
				TypedConfig: toAny(&celv3.ExpressionFilter{Expression: filter.GetExpression()}),
			},
		},
	}}
}

// logSpec is one provider's log.
type logSpec struct {
	name     string
	log      *accesslogv3.AccessLog
	filter   *telemetry.AccessLogging_Filter
	disabled bool
}

// logSpecs are the logs by provider name; fallback: no Telemetry and no default
// provider says anything (Istio pilot/pkg/model/telemetry.go mergeLogs).
func (b *Builder) logSpecs(applied []*telemetry.Telemetry, class listenerClass) (specs []logSpec, fallback bool) {
	defaults := b.view.Config.GetDefaultProviders().GetAccessLogging()
	var levels [][]*telemetry.AccessLogging
	for _, t := range applied {
		if len(t.GetAccessLogging()) > 0 {
			levels = append(levels, t.GetAccessLogging())
		}
	}
	if len(levels) == 0 && len(defaults) == 0 {
		return nil, true
	}
	merged := mergeLogs(levels, defaults, workloadMode(class))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		spec := merged[name]
		provider := b.provider(name)
		if spec.log = b.providerLog(provider); spec.log == nil {
			continue
		}
		spec.name = provider.GetName()
		specs = append(specs, spec)
	}
	slices.SortStableFunc(specs, func(x, y logSpec) int { return cmp.Compare(x.name, y.name) })
	return specs, false
}

func mergeLogs(levels [][]*telemetry.AccessLogging, defaults []string, mode telemetry.WorkloadMode) map[string]logSpec {
	merged := map[string]logSpec{}
	if len(levels) == 0 {
		for _, name := range defaults {
			merged[name] = logSpec{}
		}
		return merged
	}
	matches := func(l *telemetry.AccessLogging) bool {
		m := l.GetMatch()
		return m == nil || m.GetMode() == telemetry.WorkloadMode_CLIENT_AND_SERVER || m.GetMode() == mode
	}
	inScope := defaults
	filters := map[string]logSpec{}
	for _, level := range levels {
		var names []string
		for _, l := range level {
			if !matches(l) {
				continue
			}
			for _, name := range providerNames(l.GetProviders()) {
				names = append(names, name)
				filters[name] = logSpec{filter: l.GetFilter()}
			}
		}
		if len(names) > 0 {
			inScope = names
		}
	}
	parents := defaults
	for _, level := range levels {
		for _, l := range level {
			names := providerNames(l.GetProviders())
			if len(names) == 0 {
				names = parents
			}
			parents = names
			for _, name := range names {
				if !slices.Contains(inScope, name) || !matches(l) {
					continue
				}
				if l.GetDisabled().GetValue() {
					merged[name] = logSpec{disabled: true}
					continue
				}
				merged[name] = filters[name]
			}
		}
	}
	return merged
}

// meshFileLog is the file log in the mesh config's format.
func (b *Builder) meshFileLog(path string) *accesslogv3.AccessLog {
	config := b.view.Config
	switch config.GetAccessLogEncoding() {
	case meshconfig.MeshConfig_TEXT:
		return fileLog(path, textFormat(config.GetAccessLogFormat()))
	case meshconfig.MeshConfig_JSON:
		format := jsonLogFormat
		if text := config.GetAccessLogFormat(); text != "" {
			own := &structpb.Struct{}
			if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), own) == nil {
				format = own
			}
		}
		return fileLog(path, jsonFormat(format))
	}
	return fileLog(path, nil)
}

func fileLog(path string, format *corev3.SubstitutionFormatString) *accesslogv3.AccessLog {
	config := &filelogv3.FileAccessLog{Path: path}
	if format != nil {
		config.AccessLogFormat = &filelogv3.FileAccessLog_LogFormat{LogFormat: format}
	}
	return accessLog("envoy.access_loggers.file", config)
}

// textFormat is a text format with its newline; empty: Istio's own.
func textFormat(text string) *corev3.SubstitutionFormatString {
	if text == "" {
		text = textLogFormat
	} else if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	format := &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
		TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
	}}
	if strings.Contains(text, "%REQ_WITHOUT_QUERY") {
		format.Formatters = []*corev3.TypedExtensionConfig{withoutQuery}
	}
	return format
}

func jsonFormat(fields *structpb.Struct) *corev3.SubstitutionFormatString {
	format := &corev3.SubstitutionFormatString{
		Format:            &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields},
		JsonFormatOptions: &corev3.JsonFormatOptions{},
	}
	if usesWithoutQuery(fields) {
		format.Formatters = []*corev3.TypedExtensionConfig{withoutQuery}
	}
	return format
}

func usesWithoutQuery(fields *structpb.Struct) bool {
	for _, v := range fields.GetFields() {
		if strings.Contains(v.GetStringValue(), "%REQ_WITHOUT_QUERY") {
			return true
		}
	}
	return false
}
