// Command kubectl-mesh_audit is the kubectl plugin "kubectl mesh-audit".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the kubeconfig's auth plugins

	"github.com/mesh-audit/mesh-audit/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // the second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	status := plugin.Main(ctx, os.Args[1:], plugin.OS())
	stop()
	os.Exit(status)
}
