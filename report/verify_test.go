package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/report"
)

// notRead is what verify says of proxies whose actual config could not be read.
func notRead(t *testing.T, all bool, reasons ...string) []string {
	t.Helper()
	v := &result.Verification{Totals: result.VerifiedTotals{Proxies: len(reasons), Unread: len(reasons)}}
	for i, reason := range reasons {
		name := fmt.Sprintf("cart-%02d", i)
		v.Proxies = append(v.Proxies, result.Verified{Namespace: "shop", Name: name, Kind: result.Sidecar, Unread: strings.ReplaceAll(reason, "POD", name)})
	}
	var out bytes.Buffer
	if err := report.Verify(&out, v, report.VerifyOptions{All: all}); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// A reason that differs from another only by the pod's own names and hashes is
// said once; --all has a line for each pod.
func TestVerifyNotRead(t *testing.T) {
	refused := func(id string) string {
		return `port-forward to port 15000 of pod shop/POD: error forwarding port 15000 to pod ` + id + `, connection refused; exec: pods "POD" is forbidden`
	}
	reasons := []string{refused("0d9b1f04a1b2"), "timed out", refused("77aa1f04a1c3"), refused("beefcafe01"), "timed out"}
	want := []string{
		"5 proxies: 0 equal, 0 differ, 5 not read",
		"",
		`not read: port-forward to port 15000 of pod shop/cart-00: error forwarding port 15000 to pod 0d9b1f04a1b2, connection refused; exec: pods "cart-00" is forbidden (shop/cart-00 and 2 more)`,
		"not read: timed out (shop/cart-01 and 1 more)",
	}
	if diff := cmp.Diff(want, notRead(t, false, reasons...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := notRead(t, true, reasons...); len(got) != 2+len(reasons) || !strings.HasSuffix(got[6], "timed out (shop/cart-04)") {
		t.Errorf("--all:\n%s", strings.Join(got, "\n"))
	}

	reasons = nil
	for i := range 30 {
		reasons = append(reasons, fmt.Sprintf("trouble number %d", i), fmt.Sprintf("trouble number %d", i))
	}
	got := notRead(t, false, reasons...)
	if len(got) != 8 || got[7] != "… and 50 proxies more that could not be read, for other reasons (--all shows them)" {
		t.Errorf("60 proxies, 30 reasons:\n%s", strings.Join(got, "\n"))
	}
}
