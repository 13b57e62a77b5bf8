package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// markdownLimit is how long a comment may become: GitHub refuses one of more
// than 65,536 characters. Bytes are counted, of which there are never fewer;
// some are left for a marker that the poster puts in front.
const markdownLimit = 65536 - 64

// Room that is kept for what closes the comment, and what one name may take.
const (
	markdownTail = 512
	markdownName = 120
)

// DiffMarkdown writes a comment for a pull request: the verdict and what is
// lost in the open, all else to unfold. It is never longer than GitHub takes;
// what does not fit is counted.
func DiffMarkdown(out io.Writer, d *result.Diff) error {
	m := &markdown{view: viewOf(d), left: markdownLimit - markdownTail}
	m.add("### mesh-audit: what this change does to the proxies\n\n" + plain(Verdict(d)) + "\n")
	m.unread()
	blocks := m.view.blocks()
	for _, kind := range blockKinds {
		m.section(kind, blocks)
	}
	m.oneSided("Gone", m.view.Gone)
	m.oneSided("New", m.view.New)
	m.order()
	m.push()
	m.gaps()
	if m.dropped > 0 {
		fmt.Fprintf(&m.text, "\n%d more entries did not fit here: see `kubectl mesh-audit diff --show all`.\n", m.dropped)
	}
	_, err := io.WriteString(out, m.text.String())
	return err
}

type markdown struct {
	view    *diffView
	text    strings.Builder
	left    int
	dropped int // entries
}

// add appends a piece if it fits.
func (m *markdown) add(piece string) {
	if len(piece) > m.left {
		m.dropped++
		return
	}
	m.left -= len(piece)
	m.text.WriteString(piece)
}

const detailsEnd = "\n</details>\n"

// unfold adds a collapsed section of entries; none if there are no entries.
func (m *markdown) unfold(summary string, entries []string) {
	if len(entries) == 0 {
		return
	}
	head := "\n<details><summary>" + plain(summary) + "</summary>\n\n"
	if len(head)+len(detailsEnd) > m.left {
		m.dropped += len(entries)
		return
	}
	m.left -= len(detailsEnd)
	m.add(head)
	for _, e := range entries {
		m.add(e)
	}
	m.text.WriteString(detailsEnd)
}

func (m *markdown) section(kind result.ChangeKind, blocks []*block) {
	var entries []string
	changes := 0
	for _, b := range blocks {
		if b.kind == kind {
			entries = append(entries, m.block(b))
			changes += len(b.changes)
		}
	}
	title := diffTitles[kind][:1] + strings.ToLower(diffTitles[kind][1:])
	summary := fmt.Sprintf("%s: %s", title, count(changes, "change", "changes"))
	if kind != result.Lost || len(entries) == 0 {
		m.unfold(summary, entries)
		return
	}
	m.show(summary, entries)
}

// show adds a section of which the first entries are not folded.
func (m *markdown) show(summary string, entries []string) {
	m.add("\n**" + plain(summary) + "**\n\n")
	const open = 5
	for _, e := range entries[:min(open, len(entries))] {
		m.add(e)
	}
	if rest := entries[min(open, len(entries)):]; len(rest) > 0 {
		m.unfold(fmt.Sprintf("%d more", len(rest)), rest)
	}
}

func (m *markdown) block(b *block) string {
	var s strings.Builder
	fmt.Fprintf(&s, "- %s, because %s\n", plain(m.view.who(b.audience, diffWorkloads)), plain(b.why()))
	for _, r := range b.rows() {
		if len(r.changes) <= diffLines {
			for _, c := range r.changes {
				fmt.Fprintf(&s, "  - %s\n", code(describe(c)))
			}
		} else {
			fmt.Fprintf(&s, "  - %s of %s\n", plain(r.sums()), plain(r.subjects(diffSubjects)))
		}
		if r.sees != "" {
			fmt.Fprintf(&s, "    **callers see %s**\n", plain(r.sees))
		}
	}
	return s.String()
}

// oneSided tells of proxies that only one side has.
func (m *markdown) oneSided(title string, list []result.OneSided) {
	var entries []string
	for _, text := range m.view.oneSidedTexts(list, diffWorkloads) {
		entries = append(entries, "- "+plain(text)+"\n")
	}
	m.unfold(title, entries)
}

func (m *markdown) order() {
	var entries []string
	for _, h := range m.view.Order.Hazards {
		entries = append(entries, fmt.Sprintf("- %s before %s: otherwise %s\n",
			plain(stepText(m.view.inputs[h.First])), plain(stepText(m.view.inputs[h.Then])), plain(h.Text)))
	}
	if u := m.view.Order.Unsafe; u != "" {
		entries = append(entries, "- **not safe in any order**: "+plain(u)+"\n")
	} else {
		for i, s := range m.view.Order.Steps {
			entries = append(entries, fmt.Sprintf("%d. %s %s\n", i+1, s.Do, plain(refName(m.view.inputs[s.Input].Ref()))))
		}
	}
	m.unfold("Order: applied one by one, some orders lose traffic in between", entries)
}

func (m *markdown) push() {
	p := m.view.Push
	if p.Proxies == 0 && p.Reconnect == "" {
		return
	}
	text := fmt.Sprintf("Push: %s, %s in all", count(p.Proxies, "proxy", "proxies"), bytesText(p.Bytes))
	entries := []string{}
	if p.Reconnect != "" {
		entries = append(entries, "- "+plain(p.Reconnect)+"\n")
	}
	for _, in := range p.Inputs {
		entries = append(entries, fmt.Sprintf("- %s: %s, %s\n", plain(inputText(m.view.inputs[in.Input])), count(in.Any, "proxy", "proxies"), bytesText(in.Bytes)))
	}
	m.unfold(text, entries)
}

func (m *markdown) gaps() {
	var entries []string
	for _, g := range m.view.Gaps {
		if g.Kind == result.Unmodelled {
			entries = append(entries, "- "+plain(GapText(g))+"\n")
		}
	}
	m.unfold("Gaps: what this answer does not know", entries)
}

// plain makes text safe in Markdown that GitHub renders: nothing in it is
// markup, a mention or a link.
func plain(s string) string {
	return markup.Replace(Clean(ends(s)))
}

var markup = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]",
	"|", "\\|", "#", "\\#", "~", "\\~", "@", "@\u200b", "://", ":\u200b//", "www.", "www\u200b.", "!", "\\!",
)

// code makes a code span, which a backtick of the text cannot end.
func code(s string) string {
	s = Clean(ends(s))
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// ends keeps the start and the end of a text that is too long for a line.
func ends(s string) string {
	r := []rune(s)
	if len(r) <= 3*markdownName {
		return s
	}
	return string(r[:2*markdownName]) + "…" + string(r[len(r)-markdownName:])
}
