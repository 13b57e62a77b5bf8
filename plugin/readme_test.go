package plugin_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mesh-audit/mesh-audit/plugin"
)

var transcript = regexp.MustCompile("(?s)```\n\\$ kubectl mesh-audit ([^\n]*)\n(.*?)```")

// TestReadme runs the transcripts of the README: what it shows is what the
// commands print.
func TestReadme(t *testing.T) {
	t.Chdir("..")
	const file = "README.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	updated := transcript.ReplaceAllFunc(text, func(block []byte) []byte {
		found++
		m := transcript.FindSubmatch(block)
		var out, errs bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
		args := strings.Fields(string(m[1]))
		want := plugin.ExitOK
		if args[0] == "diff" || args[0] == "verify" {
			want = plugin.ExitYes // without differences they would show nothing
		}
		if status := plugin.Main(t.Context(), args, streams); status != want {
			t.Errorf("%s: exit status %d\n%s", m[1], status, errs.String())
			return block
		}
		if diff := cmp.Diff(string(m[2]), out.String()); diff != "" && !*update {
			t.Errorf("%s (-README +command):\n%s", m[1], diff)
		}
		return []byte("```\n$ kubectl mesh-audit " + string(m[1]) + "\n" + out.String() + "```")
	})
	if found < 2 {
		t.Errorf("%d transcripts in the README", found)
	}
	if *update {
		if err := os.WriteFile(file, updated, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
