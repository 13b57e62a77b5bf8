package audit

// SetParts makes runs cut into parts of that many proxies, until undo is called.
func SetParts(proxies int) (undo func()) {
	least, most := leastPart, mostParts
	leastPart, mostParts = proxies, 1000
	return func() { leastPart, mostParts = least, most }
}
