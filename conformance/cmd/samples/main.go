// Command samples gathers Istio's own samples, as the module cache holds
// them, into meshes: one file each, to be completed by the plugin.
package main

import (
	"bytes"
	_ "embed" // what the samples run in
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// cluster is what every mesh starts with.
//
//go:embed cluster.yaml
var cluster []byte

// base is an application, and the folders and files whose every file is put
// on top of it, one at a time.
type base struct {
	name     string
	files    []string
	variants []string
}

// bases lists the samples; patterns are relative to Istio's samples folder.
var bases = []base{
	{"bookinfo", []string{"bookinfo/platform/kube/bookinfo.yaml"}, []string{"bookinfo/networking/*.yaml", "bookinfo/gateway-api/*.yaml"}},
	{"bookinfo-rules", []string{"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/networking/bookinfo-gateway.yaml", "bookinfo/networking/destination-rule-all.yaml"},
		[]string{"bookinfo/networking/virtual-service-*.yaml", "bookinfo/networking/fault-*.yaml"}},
	{"bookinfo-mtls", []string{"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/networking/destination-rule-all-mtls.yaml"}, nil},
	{"bookinfo-db", []string{"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-db.yaml", "bookinfo/platform/kube/bookinfo-mysql.yaml", "bookinfo/platform/kube/bookinfo-ratings-v2.yaml"},
		[]string{"bookinfo/networking/virtual-service-ratings-*.yaml"}},
	{"bookinfo-ingress", []string{"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-ingress.yaml"}, nil},
	{"bookinfo-versions", []string{"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-versions.yaml"}, nil},
	{"helloworld", []string{"helloworld/helloworld.yaml"}, []string{"helloworld/helloworld-gateway.yaml", "helloworld/gateway-api/*.yaml"}},
	{"helloworld-dual-stack", []string{"helloworld/helloworld-dual-stack.yaml"}, nil},
	{"httpbin", []string{"httpbin/httpbin.yaml"}, []string{"httpbin/httpbin-gateway.yaml", "httpbin/gateway-api/*.yaml", "httpbin/sample-client/*.yaml"}},
	{"httpbin-nodeport", []string{"httpbin/httpbin-nodeport.yaml"}, nil},
	{"sleep", []string{"sleep/sleep.yaml"}, []string{"external/*.yaml"}},
	{"curl", []string{"curl/curl.yaml"}, []string{"external/*.yaml"}},
	{"tcp-echo", []string{"tcp-echo/tcp-echo-services.yaml"}, []string{"tcp-echo/tcp-echo-all-v1.yaml", "tcp-echo/tcp-echo-20-v2.yaml", "tcp-echo/gateway-api/*.yaml"}},
	{"tcp-echo-plain", []string{"tcp-echo/tcp-echo.yaml"}, nil},
	{"websockets", []string{"websockets/app.yaml"}, []string{"websockets/route.yaml"}},
	{"grpc-echo", []string{"grpc-echo/grpc-echo.yaml"}, nil},
	{"mtls-echo", []string{"mtls-echo/mtls-echo.yaml"}, nil},
	{"extauthz", []string{"extauthz/ext-authz.yaml", "httpbin/httpbin.yaml"}, []string{"extauthz/local-ext-authz.yaml"}},
	{"jwt-server", []string{"jwt-server/jwt-server.yaml"}, nil},
	{"health-check", []string{"health-check/liveness-command.yaml", "health-check/liveness-http-same-port.yaml"}, nil},
	{"open-telemetry", []string{"open-telemetry/otel.yaml", "httpbin/httpbin.yaml"}, []string{"open-telemetry/tracing/telemetry.yaml"}},
	{"everything", []string{"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/networking/bookinfo-gateway.yaml", "bookinfo/networking/destination-rule-all.yaml",
		"bookinfo/networking/virtual-service-all-v1.yaml", "httpbin/httpbin.yaml", "helloworld/helloworld.yaml", "curl/curl.yaml", "tcp-echo/tcp-echo-services.yaml"}, nil},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "samples:", err)
		os.Exit(1)
	}
}

// run writes all meshes.
func run(args []string) error {
	fs := flag.NewFlagSet("samples", flag.ContinueOnError)
	out := fs.String("o", "samples", "folder for the meshes")
	dir := fs.String("istio", "", "folder of Istio's sources (default: the module cache's)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		found, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/istio").Output()
		if err != nil {
			return fmt.Errorf("run it in the conformance module, or give -istio: %w", err)
		}
		*dir = strings.TrimSpace(string(found))
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, b := range bases {
		if err := b.write(filepath.Join(*dir, "samples"), *out); err != nil {
			return err
		}
	}
	return nil
}

// write writes the application alone, and with each of its variants.
func (b base) write(samples, out string) error {
	if err := concat(filepath.Join(out, b.name+".yaml"), samples, b.files); err != nil {
		return err
	}
	for _, pattern := range b.variants {
		found, err := filepath.Glob(filepath.Join(samples, pattern))
		if err != nil {
			return err
		}
		sort.Strings(found)
		for _, f := range found {
			rel, err := filepath.Rel(samples, f)
			if err != nil {
				return err
			}
			name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(rel, b.name+"/"), ".yaml"), "/", "-")
			target := filepath.Join(out, b.name+"+"+name+".yaml")
			if err := concat(target, samples, append(append([]string{}, b.files...), rel)); err != nil {
				return err
			}
		}
	}
	return nil
}

// concat joins files to one stream of documents, after the cluster's own.
func concat(target, samples string, files []string) error {
	var b bytes.Buffer
	b.Write(cluster)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(samples, f))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "---\n# %s\n%s\n", f, data)
	}
	return os.WriteFile(target, b.Bytes(), 0o644)
}
