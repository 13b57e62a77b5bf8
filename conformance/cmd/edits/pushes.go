package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// comparePushes tells where the predicted push is not what the judge's server
// sends to its connections when base becomes head.
func (o *options) comparePushes(base, head string) ([]string, error) {
	want, err := o.askPushes(base, head)
	if err != nil {
		if strings.Contains(err.Error(), "refused") {
			return nil, errRefused
		}
		return nil, err
	}
	d, err := o.diff(base, head)
	if err != nil {
		return nil, err
	}
	if equal(d, want) {
		return nil, nil
	}
	var lines []string
	for i := range want.Proxies {
		p := &want.Proxies[i]
		one, err := o.diff(base, head, "-n", p.Namespace, p.Name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, one.unlike(p)...)
	}
	if len(lines) == 0 {
		lines = append(lines, fmt.Sprintf("  %d bytes to %d proxies, not equal to istiod's %s", d.Push.Bytes, d.Push.Proxies, total(want)))
	}
	return lines, nil
}

func (o *options) askPushes(base, head string) (*report.Pushes, error) {
	out := filepath.Join(o.work, "pushed.json")
	if err := o.runJudge("-f", base, "-then", head, "-o", out); err != nil {
		return nil, err
	}
	p := &report.Pushes{}
	return p, readJSON(out, p)
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// equal compares the numbers of proxies by type, and all bytes.
func equal(d *diffReport, want *report.Pushes) bool {
	counts, bytes, any := map[string]int{}, int64(0), 0
	for i := range want.Proxies {
		for xdsType, sent := range want.Proxies[i].Sent {
			counts[xdsType]++
			bytes += int64(sent.Bytes)
		}
		if len(want.Proxies[i].Sent) > 0 {
			any++
		}
	}
	if d.Push.Proxies != any || d.Push.Bytes != bytes || len(d.Push.Inputs) > 1 {
		return false
	}
	for _, in := range d.Push.Inputs {
		for _, xdsType := range report.Types {
			if in.Proxies[xdsType] != counts[xdsType] {
				return false
			}
		}
	}
	return true
}

func total(want *report.Pushes) string {
	bytes := 0
	for i := range want.Proxies {
		for _, sent := range want.Proxies[i].Sent {
			bytes += sent.Bytes
		}
	}
	return fmt.Sprint(bytes)
}

// unlike compares the push of the one proxy that d is about.
func (d *diffReport) unlike(want *report.PushedProxy) []string {
	have := map[string]bool{}
	for _, in := range d.Push.Inputs {
		for xdsType, n := range in.Proxies {
			if n > 0 {
				have[xdsType] = true
			}
		}
	}
	var lines []string
	bytes := int64(0)
	for _, xdsType := range report.Types {
		sent, is := want.Sent[xdsType]
		bytes += int64(sent.Bytes)
		switch {
		case is && !have[xdsType]:
			lines = append(lines, fmt.Sprintf("  %s/%s: istiod sends %s, the plugin says it does not", want.Namespace, want.Name, xdsType))
		case !is && have[xdsType]:
			lines = append(lines, fmt.Sprintf("  %s/%s: istiod does not send %s", want.Namespace, want.Name, xdsType))
		}
	}
	if len(lines) == 0 && bytes != d.Push.Bytes {
		var parts []string
		for _, xdsType := range report.Types {
			if sent, is := want.Sent[xdsType]; is {
				parts = append(parts, fmt.Sprintf("%s %d of %d", xdsType, sent.Bytes, sent.Count))
			}
		}
		lines = append(lines, fmt.Sprintf("  %s/%s: istiod sends %d bytes (%s), the plugin says %d", want.Namespace, want.Name, bytes, strings.Join(parts, ", "), d.Push.Bytes))
	}
	return lines
}
