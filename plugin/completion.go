package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// completeScript is what kubectl runs to complete a plugin's arguments: an
// executable kubectl_complete-NAME on the PATH.
const completeScript = `#!/usr/bin/env sh
# Completes the arguments of "kubectl mesh-audit"; kubectl 1.26 and later call it.
exec kubectl mesh-audit __complete "$@"
`

const (
	completeScriptName = "kubectl_complete-mesh_audit"
	pluginName         = "kubectl-mesh_audit"
)

func newCompletionCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion (bash | zsh | fish | install)",
		Short: "Print shell completion, or install kubectl's completion for the plugin",
		Long: `Print a completion script for the binary kubectl-mesh_audit, or install what lets
kubectl itself complete "kubectl mesh-audit …": the executable ` + completeScriptName + `
in a directory of the PATH. kubectl's own completion has to be set up in the shell.`,
		Example: `  # kubectl mesh-audit <TAB>, in every shell in which kubectl completes
  kubectl mesh-audit completion install

  # Completion of the binary itself
  source <(kubectl-mesh_audit completion bash)`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("%s takes one of bash, zsh, fish, install", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := g.streams.Out
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			}
			return usageError("no completion for %q: use bash, zsh, fish or install", args[0])
		},
	}
	cmd.AddCommand(newInstallCommand(g))
	return cmd
}

func newInstallCommand(g *global) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install " + completeScriptName + " so that kubectl completes the plugin's arguments",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			target, err := installCompletion(dir)
			if err != nil {
				return unreadError(err)
			}
			fmt.Fprintf(g.streams.Out, "installed %s\n", target)
			if !onPath(filepath.Dir(target)) {
				g.notef("note: %s is not in the PATH; kubectl will find the script only there", filepath.Dir(target))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "Directory to install into; default: where the plugin itself is")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// installCompletion writes the script and returns its path. It replaces an
// older script of its own, and refuses to replace anything else.
func installCompletion(dir string) (string, error) {
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("cannot tell where the plugin is installed (give --dir): %w", err)
		}
		dir = filepath.Dir(onPathAs(self))
	}
	target := filepath.Join(dir, completeScriptName)
	if old, err := os.ReadFile(target); err == nil && !strings.Contains(string(old), "kubectl mesh-audit __complete") {
		return "", fmt.Errorf("%s exists and is not ours: remove it or give another --dir", target)
	}
	if err := os.WriteFile(target, []byte(completeScript), 0o755); err != nil {
		return "", fmt.Errorf("install completion (give --dir a directory of the PATH that you can write): %w", err)
	}
	return target, os.Chmod(target, 0o755)
}

// onPathAs is where kubectl finds the plugin: krew has links in the PATH to
// where it keeps the binaries. self if it is not there.
func onPathAs(self string) string {
	found, err := exec.LookPath(pluginName)
	if err != nil {
		return self
	}
	one, err := os.Stat(found)
	other, err2 := os.Stat(self)
	if errors.Join(err, err2) != nil || !os.SameFile(one, other) {
		return self
	}
	return found
}

func onPath(dir string) bool {
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.Clean(d) == filepath.Clean(dir) {
			return true
		}
	}
	return false
}

// completionLimit and completionTimeout keep the shell responsive.
const (
	completionLimit   = 500
	completionTimeout = 3 * time.Second
)

// registerCompletions completes the values of flags that name cluster objects or
// entries of the kubeconfig.
func registerCompletions(root *cobra.Command, g *global) {
	namespaces := func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return g.complete(cmd, prefix, "", "namespaces", metav1.ListOptions{})
	}
	_ = root.RegisterFlagCompletionFunc("namespace", namespaces)
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup("only-namespace") != nil {
			_ = cmd.RegisterFlagCompletionFunc("only-namespace", namespaces)
		}
	}
	for flag, names := range map[string]func(clientcmdapi.Config) []string{
		"context": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		_ = root.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			config, err := g.config.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(config), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// completePods completes the name of a pod that has a proxy.
func completePods(g *global) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace, _, err := g.config.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.complete(cmd, prefix, namespace, "pods", metav1.ListOptions{LabelSelector: "security.istio.io/tlsMode"})
	}
}

// complete asks the cluster for the names of objects; whatever goes wrong completes nothing.
func (g *global) complete(cmd *cobra.Command, prefix, namespace, resource string, o metav1.ListOptions) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	config, err := g.config.ToRESTConfig()
	if err != nil {
		return nil, none
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, none
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	o.Limit = completionLimit
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).List(ctx, o)
	if err != nil {
		return nil, none
	}
	var names []string
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, none
}

func fixedCompletion(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
