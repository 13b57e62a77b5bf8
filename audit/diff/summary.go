package diff

import "github.com/mesh-audit/mesh-audit/audit/result"

// count adds a pair's proxies to the summary.
func (c *comparer) count(p *pair) {
	s := &c.out.Summary
	n := len(p.names)
	growth := result.Growth{Base: p.base.Bytes.Total, Head: p.head.Bytes.Total}
	if s.Proxies == 0 || growth.Percent() < s.LeastGrowth.Percent() {
		s.LeastGrowth = growth
	}
	if s.Proxies == 0 || growth.Percent() > s.MostGrowth.Percent() {
		s.MostGrowth = growth
	}
	s.Proxies += n
	if p.changed {
		s.Changed += n
	}
	switch {
	case p.lose:
		s.Lose += n
	case p.loseUnused:
		s.LoseUnused += n
	}
}

func (c *comparer) countChanges() {
	s := &c.out.Summary
	for i := range c.out.Changes {
		switch c.out.Changes[i].Told() {
		case result.Lost:
			s.Lost++
		case result.Gained:
			s.Gained++
		case result.Moved:
			s.Moved++
		case result.Changed:
			s.Altered++
		case result.ResizedOnly:
			s.Resized++
		}
	}
}
