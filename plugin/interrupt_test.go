package plugin_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// An interrupt ends what does not heed it, too: here a read from a terminal on
// which nobody types.
func TestInterrupted(t *testing.T) {
	silent, typed := io.Pipe()
	defer func() { _ = typed.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- plugin.Main(ctx, []string{"verify", "--demo", "--config-dump", "-"}, genericiooptions.IOStreams{In: silent, Out: &out, ErrOut: &errs})
	}()
	select {
	case status := <-ended:
		if status != plugin.ExitUnread || out.Len() > 0 || !strings.HasPrefix(errs.String(), "error: interrupted: ") {
			t.Errorf("exit status %d\n%s%s", status, out.String(), errs.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}
