package load

import (
	"context"
	"fmt"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fairness looks the names up that stand behind the UIDs in which the API
// server tells what served or rejected a request. Where they may not be read,
// the UIDs are told.
type fairness struct {
	mu    sync.Mutex
	names map[string]string // by UID; empty until they could be read
}

// flowNames returns the names of a priority level and a FlowSchema.
func (l *live) flowNames(ctx context.Context, f flow) (level, schema string) {
	l.fairness.mu.Lock()
	defer l.fairness.mu.Unlock()
	if len(l.fairness.names) == 0 { // a server that rejects may have rejected this, too
		l.fairness.names = l.readFlowNames(ctx)
	}
	name := func(uid string) string {
		if known := l.fairness.names[uid]; known != "" {
			return known
		}
		return "UID " + uid
	}
	return name(f.level), name(f.schema)
}

// readFlowNames asks once, without retries: the server may be rejecting us.
func (l *live) readFlowNames(ctx context.Context) map[string]string {
	names := map[string]string{}
	read := func(resource string, list runtime.Object) bool {
		return l.request(flowcontrolv1.SchemeGroupVersion.WithResource(resource)).MaxRetries(0).Do(ctx).Into(list) == nil
	}
	var schemas flowcontrolv1.FlowSchemaList
	if read("flowschemas", &schemas) {
		for i := range schemas.Items {
			names[string(schemas.Items[i].UID)] = schemas.Items[i].Name
		}
	}
	var levels flowcontrolv1.PriorityLevelConfigurationList
	if read("prioritylevelconfigurations", &levels) {
		for i := range levels.Items {
			names[string(levels.Items[i].UID)] = levels.Items[i].Name
		}
	}
	return names
}

// rejection says which priority level rejected the requests for a resource.
func (l *live) rejection(ctx context.Context, resource string) string {
	f, ok := l.meter.rejectedBy(resource)
	if !ok {
		return "the API server rejects it as one request too many"
	}
	level, schema := l.flowNames(ctx, f)
	return fmt.Sprintf("rejected by the API server's priority level %s (FlowSchema %s), again and again", level, schema)
}
