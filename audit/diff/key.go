package diff

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// changeKey is equal for changes that are told as one.
type changeKey [sha256.Size]byte

func keyOf(c *result.Change) changeKey {
	var b []byte
	add := func(s string) { b = append(append(b, s...), 0) }
	list := func(values []string) {
		for _, v := range values {
			add(v)
		}
		b = append(b, 1)
	}
	optional := func(s *string) {
		if s != nil {
			add("=" + *s)
		}
		b = append(b, 2)
	}
	number := func(n *int) {
		if n != nil {
			b = strconv.AppendInt(b, int64(*n), 10)
		}
		b = append(b, 3)
	}
	add(string(c.Kind))
	add(c.Type)
	add(c.Resource)
	optional(c.Part)
	add(c.To)
	optional(c.ToPart)
	add(c.Service)
	add(c.Sees)
	list(c.Fields)
	list(c.Inputs)
	list(c.Fails)
	list(c.Recovers)
	add(strconv.FormatBool(c.Harmless))
	for _, parts := range [][]result.Part{c.Before, c.After} {
		for i := range parts {
			p := &parts[i]
			add(p.Name)
			optional(p.Match)
			list(p.Domains)
			list(p.To)
			add(p.Type)
			optional(p.Rule)
			number(p.Endpoints)
			number(p.Hosts)
			b = strconv.AppendUint(b, uint64(p.Digest), 16)
		}
		b = append(b, 4)
	}
	return sha256.Sum256(b)
}

func compareParts(x, y []result.Part) int {
	return slices.CompareFunc(x, y, func(p, q result.Part) int {
		return cmp.Or(cmp.Compare(p.Name, q.Name), cmp.Compare(text(p.Match), text(q.Match)), slices.Compare(p.Domains, q.Domains),
			slices.Compare(p.To, q.To), cmp.Compare(p.Type, q.Type), cmp.Compare(text(p.Rule), text(q.Rule)),
			cmp.Compare(amount(p.Endpoints), amount(q.Endpoints)), cmp.Compare(amount(p.Hosts), amount(q.Hosts)), cmp.Compare(p.Digest, q.Digest))
	})
}
