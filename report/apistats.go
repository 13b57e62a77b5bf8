package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// APIStats writes what was asked of the API server.
func APIStats(out io.Writer, s *result.APIStats) error {
	w := &errWriter{palette: newPalette(false), w: out}
	rows := [][]string{{"API RESOURCE", "REQUESTS", "PAGES", "OBJECTS", "BYTES", "RETRIES", "REJECTED"}}
	row := func(k result.APIKind) {
		rows = append(rows, []string{k.Resource, strconv.Itoa(k.Requests), strconv.Itoa(k.Pages), strconv.Itoa(k.Objects),
			bytesText(k.Bytes), strconv.Itoa(k.Retries), strconv.Itoa(k.Rejected)})
	}
	sum := result.APIKind{Resource: "all"}
	for _, k := range s.Kinds {
		sum.Requests += k.Requests
		sum.Pages += k.Pages
		sum.Objects += k.Objects
		sum.Bytes += k.Bytes
		sum.Retries += k.Retries
		sum.Rejected += k.Rejected
		k.Resource = cmp.Or(k.Resource, "(discovery)")
		row(k)
	}
	row(sum)
	w.err = cmp.Or(w.err, w.table(w, rows))
	for _, l := range s.Levels {
		rejected := ""
		if l.Rejected > 0 {
			rejected = fmt.Sprintf(", rejected %d", l.Rejected)
		}
		w.linef("%s", Clean(fmt.Sprintf("priority level %s (FlowSchema %s): served %d%s", l.PriorityLevel, l.FlowSchema, l.Requests, rejected)))
	}
	w.linef("%d.%03d s", s.Milliseconds/1000, s.Milliseconds%1000)
	return w.err
}
