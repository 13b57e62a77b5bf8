// Command kubectl-mesh_audit is the kubectl plugin "kubectl mesh-audit".
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the kubeconfig's auth plugins
	"k8s.io/klog/v2"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// ballast is how many bytes of memory are never touched, and so take no room. They
// make garbage of that size not worth collecting, which for a command of a second
// is most.
const ballast = 128 << 20

func main() {
	untouched := make([]byte, ballast)
	klog.SetLogger(logr.Discard()) // the client's own log is not for users: what went wrong is reported
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // the second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	status := plugin.Main(ctx, os.Args[1:], plugin.OS())
	stop()
	runtime.KeepAlive(untouched)
	os.Exit(status)
}
