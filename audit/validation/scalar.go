package validation

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/validation"
)

const unixPrefix = "unix://"

func (c *checker) port(at *path, number int64) {
	if number < 1 || number > 65535 {
		c.refuse(at, "%d is not between 1 and 65535", number)
	}
}

func (c *checker) percent(at *path, value int32) {
	if value < 0 || value > 100 {
		c.refuse(at, "%d is not between 0 and 100", value)
	}
}

func (c *checker) notNegative(at *path, value int32) {
	if value < 0 {
		c.refuse(at, "%d is negative", value)
	}
}

// duration checks a time of at least a millisecond, in whole milliseconds.
func (c *checker) duration(at *path, d *durationpb.Duration) bool {
	switch t := d.AsDuration(); {
	case t < time.Millisecond:
		c.refuse(at, "%s is less than 1ms", t)
	case t%time.Millisecond != 0:
		c.refuse(at, "%s is not a whole number of milliseconds", t)
	default:
		return true
	}
	return false
}

// optionalDuration is duration for a field that may be unset.
func (c *checker) optionalDuration(at *path, d *durationpb.Duration) {
	if d != nil {
		c.duration(at, d)
	}
}

// notEmpty checks that no text of a list is empty.
func (c *checker) notEmpty(at *path, values []string) bool {
	for i, value := range values {
		if value == "" {
			c.refuse(at.item(i), "empty")
			return false
		}
	}
	return true
}

func (c *checker) label(at *path, text string) {
	if !domainLabel(text) {
		c.refuse(at, "%q is not a label of letters, digits and -", text)
	}
}

// fqdn checks a DNS name without wildcards.
func (c *checker) fqdn(at *path, name string) {
	if !isFQDN(name) {
		c.refuse(at, "%q is not a DNS name", name)
	}
}

// fqdnOrAddress checks a DNS name or an IP address.
func (c *checker) fqdnOrAddress(at *path, text string) {
	if !isFQDN(text) && !isAddress(text) {
		c.refuse(at, "%q is neither a DNS name nor an IP address", text)
	}
}

func isFQDN(name string) bool { return name != "" && len(name) <= 255 && domainLabels(name) }

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// domainLabels checks the labels of a DNS name, whose last one may be empty, and
// is not a number.
func domainLabels(name string) bool {
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	if _, err := strconv.Atoi(last); err == nil {
		return false
	}
	if last == "" {
		labels = labels[:len(labels)-1]
	}
	for _, label := range labels {
		if !domainLabel(label) {
			return false
		}
	}
	return true
}

// domainLabel is whether a text is a label of a DNS name; capitals are.
func domainLabel(text string) bool {
	if text == "" || len(text) > 63 || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}

// wildcardDomain checks a DNS name whose first label may be, or begin with, *.
func (c *checker) wildcardDomain(at *path, name string) bool {
	if isWildcardDomain(name) {
		return true
	}
	c.refuse(at, "%q is not a DNS name, nor one that begins with *", name)
	return false
}

func isWildcardDomain(name string) bool {
	first, rest, more := strings.Cut(name, ".")
	if len(name) > 255 || first != "*" && !domainLabel(strings.TrimPrefix(strings.TrimPrefix(first, "*-"), "*")) {
		return false
	}
	return !more || domainLabels(rest)
}

func isWildcard(host string) bool { return strings.HasPrefix(host, "*") }

// within reports that every name that a stands for is one of b's.
func within(a, b string) bool {
	switch {
	case isWildcard(b):
		return (!isWildcard(a) || len(a) >= len(b)) && strings.HasSuffix(strings.TrimPrefix(a, "*"), b[1:])
	case isWildcard(a):
		return false
	}
	return a == b
}

func (c *checker) address(at *path, text string) {
	if !isAddress(text) {
		c.refuse(at, "%q is not an IP address", text)
	}
}

// addressOrRange checks an IP address, or a range of them in CIDR notation.
func (c *checker) addressOrRange(at *path, text string) {
	if !isAddressOrRange(text) {
		c.refuse(at, "%q is neither an IP address nor a range of them", text)
	}
}

func isAddressOrRange(text string) bool {
	if strings.Count(text, "/") == 1 {
		_, err := netip.ParsePrefix(text)
		return err == nil
	}
	return isAddress(text)
}

func (c *checker) addressesOrRanges(at *path, list []string) {
	for i, text := range list {
		c.addressOrRange(at.item(i), text)
	}
}

// unixSocket checks the path of a Unix domain socket.
func (c *checker) unixSocket(at *path, address string) {
	socket := strings.TrimPrefix(address, unixPrefix)
	if !strings.HasPrefix(socket, "@") && (!strings.HasPrefix(socket, "/") || strings.HasSuffix(socket, "/")) {
		c.refuse(at, "%q is not the absolute path of a file", address)
	}
}

// hostPort checks "host:port" of a server.
func (c *checker) hostPort(at *path, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		c.refuse(at, "%q is not of the form host:port", address)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		c.refuse(at, "%q: the port is not between 1 and 65535", address)
		return
	}
	if !isFQDN(host) && !isAddress(host) {
		c.refuse(at, "%q: the host is neither a DNS name nor an IP address", address)
	}
}

// regex checks an expression of RE2.
func (c *checker) regex(at *path, expression string) {
	if len(expression) > 1024 {
		c.refuse(at, "is longer than 1024 characters")
		return
	}
	if _, err := regexp.Compile(expression); err != nil {
		c.refuse(at, "%q: %s", expression, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

// labelValue is that of a label, but for its length, which Istio leaves open.
var labelValue = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)

// kubernetesLabels checks the labels of a subset, an endpoint or a source.
func (c *checker) kubernetesLabels(at *path, labels map[string]string) {
	for _, key := range sorted(labels) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			c.refuse(at.key(key), "%q is not the key of a label", key)
		}
		if !labelValue.MatchString(labels[key]) {
			c.refuse(at.key(key), "%q is not the value of a label", labels[key])
		}
	}
}

// matchLabels checks the labels of a workload selector.
func (c *checker) matchLabels(at *path, labels map[string]string) {
	for _, key := range sorted(labels) {
		switch {
		case key == "":
			c.refuse(at, "a label without a key")
		case strings.Contains(key+labels[key], "*"):
			c.refuse(at, "%q: a selector has no wildcards", key+"="+labels[key])
		}
	}
}

// exportTo checks the namespaces that an object is for.
func (c *checker) exportTo(at *path, list []string, entry bool) {
	seen := map[string]bool{}
	for i, namespace := range list {
		key := namespace
		if namespace == "." {
			key = c.namespace
		}
		switch {
		case seen[key]:
			c.refuse(at.item(i), "%q is there twice", namespace)
		case namespace == "~" && !entry:
			c.refuse(at.item(i), "~ is for a ServiceEntry only")
		case key != "*" && key != "~" && !domainLabel(key):
			c.refuse(at.item(i), "%q is none of ., * and a namespace", namespace)
		}
		seen[key] = true
	}
	if len(list) > 1 && (seen["*"] || seen["~"]) {
		c.refuse(at, "* and ~ stand alone")
	}
}

// protocol is what Istio takes a port to speak.
type protocol int

const (
	unknownProtocol protocol = iota
	plainProtocol            // TCP, UDP and databases
	httpProtocol             // of the HTTP family
	tlsProtocol              // HTTPS and TLS
)

func protocolOf(text string) protocol {
	switch strings.ToLower(text) {
	case "http", "http2", "http_proxy", "grpc", "grpc-web":
		return httpProtocol
	case "https", "tls":
		return tlsProtocol
	case "tcp", "udp", "mongo", "redis", "mysql":
		return plainProtocol
	}
	return unknownProtocol
}

// protocol checks the protocol of a port, where none means that it is sniffed.
func (c *checker) protocol(at *path, text string) {
	if text != "" && protocolOf(text) == unknownProtocol {
		c.refuse(at, "%q is not a protocol that Istio knows", text)
	}
}
