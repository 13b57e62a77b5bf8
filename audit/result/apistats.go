package result

// APIStats is what reading a cluster asked of its API server.
type APIStats struct {
	Kinds  []APIKind  `json:"kinds"`            // in the order of their resource names
	Levels []APILevel `json:"levels,omitempty"` // that served or rejected the requests
	// Milliseconds is how long reading took, on the wall clock.
	Milliseconds int64 `json:"milliseconds"`
}

// APIKind is what was asked for one kind.
type APIKind struct {
	Resource string `json:"resource"` // "sidecars.networking.istio.io", "" for discovery
	Requests int    `json:"requests"` // attempts, retries included
	Pages    int    `json:"pages"`    // list pages that came whole
	Objects  int    `json:"objects"`  // in those pages
	Bytes    int64  `json:"bytes"`    // of the answers, after decompression
	Retries  int    `json:"retries"`  // requests that repeated another one
	Rejected int    `json:"rejected"` // answers 429
}

// APILevel is a priority level of the API server (API Priority and Fairness).
type APILevel struct {
	// PriorityLevel and FlowSchema are names, or "UID …" where the names could not be read.
	PriorityLevel string `json:"priorityLevel"`
	FlowSchema    string `json:"flowSchema"`
	Requests      int    `json:"requests"` // that it served
	Rejected      int    `json:"rejected"` // answers 429
}
