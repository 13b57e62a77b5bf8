// Package release tests the release that make dist has built: make dist-check
// runs it.
package release
