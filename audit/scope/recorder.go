package scope

import "github.com/mesh-audit/mesh-audit/audit/result"

// Recorder is told of every decision. The whole-mesh run interns the reasons
// of what is included; explain also listens to what is turned away.
type Recorder interface {
	// Included interns a reason and returns its id.
	Included(r result.Reason) result.ReasonID
	// Excluded tells that subject (a service's host, a listener's name, a
	// virtual host's domain) was turned away at a gate.
	Excluded(subject string, r result.Reason)
}

// Explains reports that rec keeps what is turned away. A gate asks before it
// words a reason that a whole-mesh run would throw away.
func Explains(rec Recorder) bool {
	e, ok := rec.(interface{ KeepsExclusions() bool })
	return ok && e.KeepsExclusions()
}

// ReasonRecorder is the Recorder of a whole-mesh run: it interns reasons and
// forgets what is turned away. It is not safe for use by several goroutines.
type ReasonRecorder struct {
	reasons []result.Reason
	ids     map[result.Reason]result.ReasonID
}

// NewRecorder makes a Recorder that only interns.
func NewRecorder() *ReasonRecorder {
	return &ReasonRecorder{ids: map[result.Reason]result.ReasonID{}}
}

// Included interns a reason: equal reasons have one id.
func (r *ReasonRecorder) Included(reason result.Reason) result.ReasonID {
	if id, ok := r.ids[reason]; ok {
		return id
	}
	id := result.ReasonID(len(r.reasons))
	r.reasons = append(r.reasons, reason)
	r.ids[reason] = id
	return id
}

// Excluded does nothing.
func (r *ReasonRecorder) Excluded(string, result.Reason) {}

// Reasons are the interned reasons; a ReasonID is an index into them.
func (r *ReasonRecorder) Reasons() []result.Reason { return r.reasons }

// Exclusion is one thing turned away, and why.
type Exclusion struct {
	Subject string
	Reason  result.Reason
}

// ExplainRecorder also keeps what is turned away, each once, in the order of
// the decisions.
type ExplainRecorder struct {
	ReasonRecorder
	about      func(subject string) bool
	exclusions []Exclusion
	seen       map[Exclusion]bool
}

// NewExplainRecorder makes a Recorder that keeps the exclusions of the
// subjects for which about answers true; nil: of all.
func NewExplainRecorder(about func(subject string) bool) *ExplainRecorder {
	return &ExplainRecorder{ReasonRecorder: *NewRecorder(), about: about, seen: map[Exclusion]bool{}}
}

// KeepsExclusions makes Explains true.
func (r *ExplainRecorder) KeepsExclusions() bool { return true }

// Excluded keeps the exclusion.
func (r *ExplainRecorder) Excluded(subject string, reason result.Reason) {
	if r.about != nil && !r.about(subject) {
		return
	}
	e := Exclusion{subject, reason}
	if !r.seen[e] {
		r.seen[e] = true
		r.exclusions = append(r.exclusions, e)
	}
}

// Exclusions are what was turned away, in the order of the decisions.
func (r *ExplainRecorder) Exclusions() []Exclusion { return r.exclusions }
