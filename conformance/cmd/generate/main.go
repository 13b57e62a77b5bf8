// Command generate measures what it costs Istio's own generators to make the
// configuration of a sample of a mesh's proxies, and compares that with what a
// prediction of all proxies took.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"istio.io/istio/pkg/log"

	"github.com/mesh-audit/mesh-audit/conformance/internal/judge"
	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("f", "", "`file` with the mesh")
	sample := flag.Int("sample", 30, "proxies to measure, spread over all")
	predicted := flag.Duration("predicted", 0, "processor time that predicting all proxies took; 0: not known")
	flag.Parse()
	for _, scope := range log.Scopes() {
		scope.SetOutputLevel(log.NoneLevel)
	}
	objects, err := mesh.Read([]string{*file})
	if err != nil {
		return err
	}
	m, err := mesh.Load(objects, mesh.Istiods(objects)[0], mesh.Options{})
	if err != nil {
		return err
	}
	cost, err := judge.Measure(m, *sample)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d proxies, %d measured\n", *file, len(m.Pods), cost.Proxies)
	for _, c := range []struct {
		name string
		sum  time.Duration
	}{{"cold", cost.Cold}, {"with its cache", cost.Warm}} {
		each := c.sum / time.Duration(cost.Proxies)
		all := each * time.Duration(len(m.Pods))
		fmt.Printf("  istiod %-15s %8.2f ms CPU a proxy, %8.1f s for all", c.name, each.Seconds()*1000, all.Seconds())
		if *predicted > 0 {
			fmt.Printf(", %.0f times the prediction's %.0f ms", float64(all)/float64(*predicted), predicted.Seconds()*1000)
		}
		fmt.Println()
	}
	return nil
}
