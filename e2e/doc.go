// Package e2e runs the built plugin through a real kubectl against a real API
// server and a real istiod, all built from their Go modules and run on loopback
// (make e2e). Nothing here is skipped: a binary that is missing fails the tests.
package e2e
