// Command kubectl-mesh_audit is the kubectl plugin "kubectl mesh-audit".
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the kubeconfig's auth plugins
	"k8s.io/klog/v2"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// collectAt is how much more than what is in use may be garbage, in percent: a
// command that runs for seconds does better with more of it than Go's 100.
const collectAt = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	klog.SetLogger(logr.Discard()) // the client's own log is not for users: what went wrong is reported
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // the second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	status := plugin.Main(ctx, os.Args[1:], plugin.OS())
	stop()
	os.Exit(status)
}
