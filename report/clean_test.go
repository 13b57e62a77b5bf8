package report_test

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/report"
)

// TestClean: what a terminal would obey is shown; bytes that are not UTF-8,
// which 8-bit terminals take for control characters (0x9b: CSI), too.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"päth/a.yaml":  "päth/a.yaml",
		"a\x1b[31mb":   `a\x1b[31mb`,
		"a\x9b31mb":    `a\x9b31mb`,
		"a\xff":        `a\xff`,
		"a\ufffdb":     "a\ufffdb",
		"a\u202eb\r\n": `a\u202eb\r\n`,
	} {
		if have := report.Clean(text); have != want {
			t.Errorf("%q: %q, want %q", text, have, want)
		}
	}
}
