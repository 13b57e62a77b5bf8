// Command kubectl-mesh_audit is the kubectl plugin "kubectl mesh-audit".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the kubeconfig's auth plugins
	"k8s.io/klog/v2"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// ballast is memory that is never touched, and so takes no room. It makes garbage
// of that size not worth collecting, which for a command of a second is most.
var ballast = make([]byte, 128<<20)

func main() {
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
