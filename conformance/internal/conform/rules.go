package conform

import (
	"fmt"
	"io"
	"slices"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
	"github.com/mesh-audit/mesh-audit/conformance/internal/rules"
)

// touched lists the rules of the list that a mesh touches, and those that the
// plugin names.
func (r *Runner) touched(input string, want *report.Report, pred *Prediction) ([]string, error) {
	data, err := readAll(input)
	if err != nil {
		return nil, err
	}
	things, err := rules.Objects(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	things = append(things, rules.Answers(want)...)
	named := map[string]bool{}
	out := pred.Rules()
	for _, id := range out {
		named[id] = true
	}
	for _, rule := range r.Rules {
		if rule.Touched(things, named) {
			out = append(out, rule.ID)
		}
	}
	return report.Set(out), nil
}

// PrintRules prints in how many meshes each rule of the list was touched, and
// lists what is wrong: rules that no mesh touches, rules that the plugin names
// and the list does not, excuses that do not hold.
func (s *Summary) PrintRules(w io.Writer, list []rules.Rule) (wrong []string) {
	listed := map[string]bool{}
	excused := 0
	for _, r := range list {
		listed[r.ID] = true
		hits := s.rules[r.ID]
		switch {
		case r.Excuse != "":
			excused++
			if hits > 0 {
				wrong = append(wrong, r.ID+" is excused, but touched")
			}
			continue
		case hits == 0:
			wrong = append(wrong, r.ID+" is touched by no mesh")
		}
		fmt.Fprintf(w, "rule %-8s in %d meshes\n", r.ID, hits)
	}
	for id := range s.rules {
		if !listed[id] {
			wrong = append(wrong, id+" is named by the plugin, but not listed")
		}
	}
	slices.Sort(wrong)
	fmt.Fprintf(w, "rules: %d listed, %d excused, %d wrong\n", len(list), excused, len(wrong))
	for _, text := range wrong {
		fmt.Fprintln(w, "  wrong:", text)
	}
	return wrong
}
