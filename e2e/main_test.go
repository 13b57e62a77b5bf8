package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// binaries are what the tests run; make e2e builds them into e2e/bin.
var binaries = []string{"etcd", "kube-apiserver", "kubectl", "krew", "validate-krew-manifest", "pilot-discovery", "istioctl"}

// root is the folder of the sources; the tests run in its folder e2e.
var root = func() string {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Dir(here)
}()

func bin(name string) string { return filepath.Join(root, "e2e", "bin", name) }

// small is the cluster with the mesh of a few workloads, which most tests share;
// its pods are on node. large starts the one with the large mesh. The files of
// both are in scratch.
var (
	small   *cluster
	node    *kubelet
	large   = sync.OnceValues(startLarge)
	scratch string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for _, name := range binaries {
		if _, err := os.Stat(bin(name)); err != nil {
			log.Printf("%v: run make e2e", err)
			return 1
		}
	}
	if _, err := os.Stat(plugin()); err != nil {
		log.Printf("%v: run make e2e", err)
		return 1
	}
	var err error
	if scratch, err = os.MkdirTemp("", "mesh-audit-e2e"); err != nil {
		log.Print(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	small, err = startCluster(filepath.Join(scratch, "small"))
	if err != nil {
		log.Print(err)
		return 1
	}
	defer small.stop()
	node = startKubelet()
	defer node.server.Close()
	if err := errors.Join(node.join(context.Background(), small), small.loadDemo(context.Background())); err != nil {
		log.Print(err)
		return 1
	}
	if flag.Parse(); all() {
		go func() { _, _ = large() }() // while other tests wait
	}
	return m.Run()
}

// all: no flag chooses among the tests.
func all() bool {
	return flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
}

func plugin() string { return filepath.Join(root, "bin", "kubectl-mesh_audit") }

// cluster is an API server with the CRDs of Istio and of the Gateway API.
type cluster struct {
	env        *envtest.Environment
	config     *rest.Config
	kube       kubernetes.Interface
	dynamic    dynamic.Interface
	dir        string
	kubeconfig string // of its administrator
}

// startCluster starts etcd and an API server. Nothing runs in it: no
// controllers, no kubelets. dir is for its files.
func startCluster(dir string) (*cluster, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	crds, err := crdFiles()
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, env: &envtest.Environment{
		BinaryAssetsDirectory:    filepath.Join(root, "e2e", "bin"),
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 3 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}}
	c.env.ControlPlane.GetAPIServer().Configure().
		Set("service-cluster-ip-range", "10.96.0.0/12").
		Set("disable-admission-plugins", "ServiceAccount")
	begun := time.Now()
	if c.config, err = c.env.Start(); err != nil {
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	log.Printf("API server with CRDs: %s", time.Since(begun).Round(time.Millisecond))
	c.config.QPS, c.config.Burst = 1000, 1000
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return nil, err
	}
	c.kubeconfig, err = c.addUser("admin", "system:masters")
	return c, err
}

func (c *cluster) stop() {
	if err := c.env.Stop(); err != nil {
		log.Print(err)
	}
}

// addUser makes a user with a certificate, and returns the path of its kubeconfig.
func (c *cluster) addUser(name string, groups ...string) (string, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return "", err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, name+".kubeconfig")
	return path, os.WriteFile(path, text, 0o600)
}

// crdFiles are the CRDs of Istio and of the Gateway API, in the modules that
// conformance/ has them from.
func crdFiles() ([]string, error) {
	istio, err := moduleDir("istio.io/istio")
	if err != nil {
		return nil, err
	}
	gateway, err := moduleDir("sigs.k8s.io/gateway-api")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(gateway, "config", "crd", "experimental", "gateway.networking*_*s.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no CRDs in %s", gateway))
	}
	return append(files, filepath.Join(istio, "manifests", "charts", "base", "files", "crd-all.gen.yaml")), nil
}

func moduleDir(module string) (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = filepath.Join(root, "conformance")
	out, err := cmd.Output()
	if dir := strings.TrimSpace(string(out)); err == nil && dir != "" {
		return dir, nil
	}
	download := exec.Command("go", "mod", "download", module)
	download.Dir = cmd.Dir
	if text, err := download.CombinedOutput(); err != nil {
		return "", fmt.Errorf("download %s: %w\n%s", module, err, text)
	}
	again := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	again.Dir = cmd.Dir
	out, err = again.Output()
	return strings.TrimSpace(string(out)), err
}
