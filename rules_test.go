package meshaudit_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRulesListed checks that docs/rules.md has every rule that the code gives
// as a reason or names in a comment.
func TestRulesListed(t *testing.T) {
	list, err := os.ReadFile("docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`\b(REG|VIS|SC|DR|CDS|IN|LDS|HL|GW|RDS|EDS|SIZE|FLAG)-\d+\b`)
	found := 0
	err = filepath.WalkDir("audit", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, rule := range id.FindAllString(string(text), -1) {
			found++
			if !strings.Contains(string(list), "| "+rule+" |") {
				t.Errorf("%s names %s, which docs/rules.md does not list", path, rule)
			}
		}
		return err
	})
	if err != nil || found < 100 {
		t.Errorf("%d ids found, %v", found, err)
	}
}
