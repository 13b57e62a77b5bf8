package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// unconfigured is where client-go looks for a cluster that nothing names.
const unconfigured = "http://localhost:8080"

// restConfig tells where the cluster is, and who asks.
func (g *global) restConfig() (*rest.Config, error) {
	if _, err := clientcmd.ParseTimeout(*g.config.Timeout); err != nil {
		return nil, usageError("--request-timeout %q: give seconds, or a number with a unit such as 30s or 2m", *g.config.Timeout)
	}
	loader := g.config.ToRawKubeConfigLoader()
	config, err := g.config.ToRESTConfig()
	raw, rawErr := loader.RawConfig()
	name := cmp.Or(*g.config.Context, raw.CurrentContext)
	switch {
	case rawErr != nil:
		return nil, noCluster(fmt.Errorf("kubeconfig: %w", rawErr))
	case name != "" && raw.Contexts[name] == nil && len(raw.Contexts) > 0:
		return nil, noCluster(fmt.Errorf("there is no context %q in the kubeconfig: it has %s", name, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")))
	case len(raw.Clusters) == 0 && (err != nil || config.Host == unconfigured) && *g.config.APIServer == "":
		files := strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", ")
		return nil, noCluster(errors.New("no cluster is configured in " + files + ": --kubeconfig or KUBECONFIG names another file"))
	case errors.Is(err, io.EOF):
		return nil, noCluster(errors.New("the kubeconfig has no credentials for the cluster, and no user name was typed"))
	case err != nil:
		return nil, noCluster(err)
	}
	return config, nil
}

// noCluster shows the ways out where the cluster cannot be read.
func noCluster(err error) error {
	return unreadError(fmt.Errorf("%w\nTo audit files instead, use -f FILE or -k DIR; to see an example, --demo", err))
}
