package load

import (
	"slices"
	"strings"
)

// wholeGroups are the API groups of which every kind is known: what is not in
// kinds is in passedOver, or does not exist.
var wholeGroups = []string{networking, security, telemetry, extension, gatewayAPI}

// passedOver are the kinds of those groups that istiod does not read any more.
var passedOver = map[groupKind]bool{
	{Group: gatewayAPI, Kind: "ReferencePolicy"}: true, // until v1alpha2; now ReferenceGrant
	{Group: gatewayAPI, Kind: "BackendLBPolicy"}: true, // until v1.3; now XBackendTrafficPolicy
}

// misspelt tells a kind that is not read apart from one that does not exist:
// the API server would refuse an object of it. The kind that is meant is the
// typed one where it cannot be told. The problem is nil where the kind may well
// exist.
func misspelt(gk groupKind) (meant string, p *problem) {
	if _, read := kinds[gk]; read || passedOver[gk] {
		return gk.Kind, nil
	}
	sameGroup, best := false, tooFar
	for known := range kinds {
		if known.Group != gk.Group {
			continue
		}
		sameGroup = true
		if d := distance(gk.Kind, known.Kind); d < best || d == best && d < tooFar && known.Kind < meant {
			meant, best = known.Kind, d
		}
	}
	switch {
	case best < tooFar:
		return meant, problemf(0, "there is no kind %s: is %s meant?", kindName(gk), meant)
	case slices.Contains(wholeGroups, gk.Group):
		return gk.Kind, problemf(0, "there is no kind %s", kindName(gk))
	case sameGroup:
		return gk.Kind, nil
	}
	for _, group := range wholeGroups {
		if distance(gk.Group, group) < tooFar {
			return gk.Kind, problemf(0, "there is no API group %s: is %s meant?", gk.Group, group)
		}
	}
	return gk.Kind, nil
}

// tooFar is the distance from which a word is another one, not the same with a
// wrong letter or two.
const tooFar = 3

// distance is the number of letters that are wrong in a word if the known one
// is meant, at most tooFar. Short words are too much alike to tell.
func distance(typed, known string) int {
	const short = 5
	if len(typed) < short || len(known) < short {
		return tooFar
	}
	return min(tooFar, edits(strings.ToLower(typed), strings.ToLower(known)))
}

// edits counts the letters to put in, to take out, to replace and to swap with
// the next one (the optimal string alignment distance), in bytes.
func edits(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			d[i][j] = min(replaced, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
