package mesh

// SetLeastPods makes so many pods worth a processor of their own, until undo is called.
func SetLeastPods(n int) (undo func()) {
	was := leastPods
	leastPods = n
	return func() { leastPods = was }
}
