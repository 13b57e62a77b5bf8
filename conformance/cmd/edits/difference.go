package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// change is what proxies lose and gain.
type change struct {
	// Proxies has, by namespace/name, those that lose or gain anything.
	Proxies  map[string]parts
	unstable map[string]bool // "proxy type name" that istiod makes differently each time
	causes   []string        // "Kind namespace/name", each once
	gaps     map[string]bool // proxies that something unmodelled may touch; "" for all
}

// parts are lines of type, resource and canonical part, sorted.
type parts struct {
	Lost   []string `json:"lost,omitempty"`
	Gained []string `json:"gained,omitempty"`
}

func (c *change) shaky(proxy, line string) bool {
	fields := strings.SplitN(line, "\t", 3)
	return c.unstable[proxy+" "+fields[0]+" "+fields[1]]
}

// ask runs the judge on a mesh, so many times.
func (o *options) ask(file string, repeat int) (*report.Report, error) {
	out := filepath.Join(o.work, "judged.json")
	if err := o.runJudge("-f", file, "-repeat", fmt.Sprint(repeat), "-o", out); err != nil {
		return nil, err
	}
	r := &report.Report{}
	return r, readJSON(out, r)
}

func (o *options) runJudge(args ...string) error {
	var errs bytes.Buffer
	cmd := exec.Command(o.judge, args...)
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("judge: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return nil
}

func (o *options) judged(base, head string, repeat int) (*change, error) {
	before, err := o.ask(base, repeat)
	if err != nil {
		return nil, err
	}
	after, err := o.ask(head, repeat)
	if err != nil {
		return nil, err
	}
	return difference(before, after), nil
}

// difference is what proxies of both answers lose and gain.
func difference(before, after *report.Report) *change {
	c := &change{Proxies: map[string]parts{}, unstable: map[string]bool{}}
	for _, r := range []*report.Report{before, after} {
		for _, u := range r.Unstable {
			c.unstable[u.Namespace+"/"+u.Proxy+" "+u.Type+" "+u.Name] = true
		}
	}
	was := map[string]map[string]int{}
	for i := range before.Proxies {
		p := &before.Proxies[i]
		was[p.Namespace+"/"+p.Name] = linesOf(p)
	}
	for i := range after.Proxies {
		p := &after.Proxies[i]
		name := p.Namespace + "/" + p.Name
		old, there := was[name]
		if !there {
			continue
		}
		c.put(name, old, linesOf(p))
	}
	return c
}

// put notes the difference of two multisets of lines.
func (c *change) put(proxy string, before, after map[string]int) {
	p := parts{Lost: extra(before, after), Gained: extra(after, before)}
	if len(p.Lost)+len(p.Gained) > 0 {
		c.Proxies[proxy] = p
	}
}

func extra(of, over map[string]int) []string {
	var out []string
	for line, n := range of {
		for range n - over[line] {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

func linesOf(p *report.Proxy) map[string]int {
	out := map[string]int{}
	for xdsType, list := range p.Resources {
		for _, r := range list {
			if len(r.Parts) == 0 {
				out[xdsType+"\t"+r.Name+"\t"]++
			}
			for _, part := range r.Parts {
				out[xdsType+"\t"+r.Name+"\t"+part.JSON()]++
			}
		}
	}
	return out
}

// diffReport is what is read of the plugin's DiffReport.
type diffReport struct {
	Inputs []struct {
		ID, Kind, Text string
		Base, Head     struct{ Kind, Namespace, Name string }
	}
	Groups []struct {
		ID, Namespace string
		Proxies       []string
	}
	Audiences []struct {
		ID     string
		Groups []string
	}
	Changes []struct {
		Kind, Type, Resource, To, Audience string
		Part                               *string
		Before, After                      []report.Part
		Inputs                             []string
	}
	Push struct {
		Proxies int
		Bytes   int64
		Inputs  []struct {
			Any     int
			Proxies map[string]int // by type
		}
	}
	Gaps []struct {
		Kind    string
		Proxies []string
		All     bool
	}
}

// predicted runs the plugin's diff and expands it to every proxy.
func (o *options) predicted(base, head string) (*change, error) {
	d, err := o.diff(base, head)
	if err != nil {
		return nil, err
	}
	return d.expand(), nil
}

// diff runs the plugin's diff.
func (o *options) diff(base, head string, more ...string) (*diffReport, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(o.plugin, append([]string{"diff", "--base", base, "--head", head, "-o", "json", "-q"}, more...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return nil, fmt.Errorf("plugin: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	d := &diffReport{}
	return d, json.Unmarshal(out.Bytes(), d)
}

func (d *diffReport) expand() *change {
	proxies := map[string][]string{}
	for _, g := range d.Groups {
		for _, p := range g.Proxies {
			proxies[g.ID] = append(proxies[g.ID], g.Namespace+"/"+p)
		}
	}
	audiences := map[string][]string{}
	for _, a := range d.Audiences {
		for _, g := range a.Groups {
			audiences[a.ID] = append(audiences[a.ID], proxies[g]...)
		}
	}
	before, after := map[string]map[string]int{}, map[string]map[string]int{}
	add := func(to map[string]map[string]int, proxy, xdsType, name string, list []report.Part) {
		if to[proxy] == nil {
			to[proxy] = map[string]int{}
		}
		for _, p := range list {
			to[proxy][xdsType+"\t"+name+"\t"+p.JSON()]++
		}
		if len(list) == 0 {
			to[proxy][xdsType+"\t"+name+"\t"]++
		}
	}
	c := &change{Proxies: map[string]parts{}, gaps: map[string]bool{}}
	for _, ch := range d.Changes {
		for _, proxy := range audiences[ch.Audience] {
			if ch.Kind != "gained" || len(ch.Before) > 0 {
				add(before, proxy, ch.Type, ch.Resource, ch.Before)
			}
			if ch.Kind != "lost" || len(ch.After) > 0 {
				add(after, proxy, ch.Type, nameAfter(ch.Resource, ch.To), ch.After)
			}
		}
		for _, id := range ch.Inputs {
			if cause := d.cause(id); !slices.Contains(c.causes, cause) {
				c.causes = append(c.causes, cause)
			}
		}
		if len(ch.Inputs) == 0 {
			c.causes = append(c.causes, "none of "+ch.Type+" "+ch.Resource)
		}
	}
	for _, proxy := range keys(before, after) {
		c.put(proxy, before[proxy], after[proxy])
	}
	for _, g := range d.Gaps {
		if g.Kind != "unmodelled" {
			continue
		}
		if g.All {
			c.gaps[""] = true
		}
		for _, p := range g.Proxies {
			c.gaps[p] = true
		}
	}
	return c
}

func nameAfter(name, to string) string {
	if to != "" {
		return to
	}
	return name
}

func (d *diffReport) cause(id string) string {
	for _, in := range d.Inputs {
		if in.ID != id {
			continue
		}
		ref := in.Head
		if ref.Kind == "" {
			ref = in.Base
		}
		if ref.Kind == "" {
			return in.Kind
		}
		return ref.Kind + " " + ref.Namespace + "/" + ref.Name
	}
	return id
}

// less is the multiset a without what b has.
func less(a, b []string) []string {
	left := map[string]int{}
	for _, s := range b {
		left[s]++
	}
	var out []string
	for _, s := range a {
		if left[s] > 0 {
			left[s]--
			continue
		}
		out = append(out, s)
	}
	return out
}

// keys are those of both maps, sorted.
func keys[V any](a, b map[string]V) []string {
	var out []string
	for k := range a {
		out = append(out, k)
	}
	for k := range b {
		out = append(out, k)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
