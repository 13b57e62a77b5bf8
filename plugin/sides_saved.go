package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// reportGroup begins the apiVersion of every report that is saved.
var reportGroup, _, _ = strings.Cut(result.APIVersion, "/")

// yamlReport begins a report that was saved with -o yaml.
var yamlReport = regexp.MustCompile(`^(---[ \t]*\r?\n|#.*\n|\s*\n)*apiVersion: ["']?` + reportGroup + `/`)

// savedReport reads a ScopeReport; nil if the file is something else.
func savedReport(path string) (*result.Audit, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadError(err)
	}
	isYAML := yamlReport.Match(text)
	if !isYAML && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return nil, nil
	}
	saved, err := readReport(text, isYAML)
	if err != nil {
		return nil, unreadError(fmt.Errorf("%s: %w", path, err))
	}
	return saved, nil
}

// readReport is savedReport for a text that is JSON, or a report in YAML.
func readReport(text []byte, isYAML bool) (*result.Audit, error) {
	if isYAML {
		converted, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("a saved report that is damaged or cut short: %w", err)
		}
		text = converted
	}
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		if bytes.Contains(text[:min(len(text), 4096)], []byte(`"`+result.KindScopeReport+`"`)) {
			return nil, fmt.Errorf("a ScopeReport that is damaged or cut short: %w", err)
		}
		return nil, nil
	}
	group, _, _ := strings.Cut(head.APIVersion, "/")
	switch {
	case group != reportGroup && head.Kind != result.KindScopeReport:
		return nil, nil
	case head.Kind != result.KindScopeReport:
		return nil, fmt.Errorf("a %s cannot be compared: save a ScopeReport with scope -o json --resources --details", head.Kind)
	case head.APIVersion != result.APIVersion:
		return nil, fmt.Errorf("a ScopeReport of %s: this plugin reads %s; make it again from its source", head.APIVersion, result.APIVersion)
	}
	saved := &result.Audit{}
	if err := json.Unmarshal(text, saved); err != nil {
		return nil, err
	}
	if err := saved.Check(); err != nil {
		return nil, fmt.Errorf("a damaged ScopeReport: %w", err)
	}
	if len(saved.Proxies) > 0 && len(saved.Objects) == 0 {
		return nil, fmt.Errorf("a ScopeReport without its details cannot be compared: save it with scope -o json --resources --details")
	}
	return saved, nil
}

// reportAmong is the kind of a saved report that was read as if it were a
// manifest; empty: there is none.
func reportAmong(files *load.Result) string {
	for ignored := range files.Ignored {
		if kind, isReport := strings.CutSuffix(ignored, "."+reportGroup); isReport {
			return kind
		}
	}
	return ""
}
