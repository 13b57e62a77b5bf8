package result

import "slices"

// KindVerifyReport is the kind of the saved form of a Verification.
const KindVerifyReport = "VerifyReport"

// Verification is the answer of one run of verify: what was predicted for
// proxies, against what they really have or istiod really sends them.
type Verification struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Proxies    []Verified     `json:"proxies"` // by namespace and name
	Gaps       []Gap          `json:"gaps"`    // of the prediction
	Totals     VerifiedTotals `json:"totals"`
}

// VerifiedTotals count the proxies of a Verification.
type VerifiedTotals struct {
	Proxies int `json:"proxies"`
	Equal   int `json:"equal"`
	Differ  int `json:"differ"`
	Unread  int `json:"unread"` // of which the actual config could not be read
}

// Verified is one proxy's comparison.
type Verified struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`   // sidecar | router
	Actual    string `json:"actual"` // where the actual config is from, for people
	Equal     bool   `json:"equal"`
	// Unread says why the actual config could not be read; empty: it could.
	Unread string `json:"unread,omitempty"`
	// Types has one entry for each xDS type, in the order of Types.
	Types []VerifiedType `json:"types,omitempty"`
	// Bytes compares the whole connection; nil: bytes are not comparable.
	Bytes *ByteComparison `json:"bytes,omitempty"`
	// May says what may explain the differences, what limits the comparison, and, of
	// an equal proxy too, what its Envoy is doing or refused.
	May []string `json:"mayExplain,omitempty"`
}

// NotCompared lists those of CommonTypes that were left out; empty: none.
func (v *Verified) NotCompared() []*VerifiedType {
	var out []*VerifiedType
	for i := range v.Types {
		if t := &v.Types[i]; t.NotCompared != "" && slices.Contains(CommonTypes, t.Type) {
			out = append(out, t)
		}
	}
	return out
}

// VerifiedType compares the resources of one xDS type.
type VerifiedType struct {
	Type string `json:"type"`
	// NotCompared says why the type was left out; empty: it was compared.
	NotCompared string            `json:"notCompared,omitempty"`
	Predicted   int               `json:"predicted"`           // number of resources
	Actual      int               `json:"actual"`              // number of resources
	Missing     []string          `json:"missing,omitempty"`   // predicted, but not there
	Extra       []string          `json:"extra,omitempty"`     // there, but not predicted
	Differing   []VerifiedParts   `json:"differing,omitempty"` // same name, other parts
	Resized     []VerifiedResized `json:"resized,omitempty"`   // same name and parts, other bytes
	Bytes       *ByteComparison   `json:"bytes,omitempty"`     // nil: bytes are not comparable
}

// ByteComparison is a number of bytes, as predicted and as it is.
type ByteComparison struct {
	Predicted int64 `json:"predicted"`
	Actual    int64 `json:"actual"`
	Within    bool  `json:"within"` // the bound that decides whether bytes count as equal
}

// VerifiedParts is a resource with other parts than predicted.
type VerifiedParts struct {
	Name    string `json:"name"`
	Missing []Part `json:"missing,omitempty"` // predicted, but not there
	Extra   []Part `json:"extra,omitempty"`   // there, but not predicted
}

// VerifiedResized is a resource with other bytes than predicted.
type VerifiedResized struct {
	Name string `json:"name"`
	ByteComparison
}

// Differs reports whether a type that was compared is not as predicted.
func (t *VerifiedType) Differs() bool {
	return t.NotCompared == "" && (len(t.Missing) > 0 || len(t.Extra) > 0 || len(t.Differing) > 0 || t.Bytes != nil && !t.Bytes.Within)
}
