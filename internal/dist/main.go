// Command dist builds what a release holds: an archive for each platform, their
// checksums and the manifest for krew. The same sources and version give the
// same bytes, wherever and whenever they are built.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// platform is what an archive is built for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// platforms are those that a release has.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// release says what to build.
type release struct {
	version   string // with its v
	url       string // folder that the archives are downloaded from
	root, out string // folders: the sources, the results
	platforms []platform
}

func main() {
	r := release{platforms: platforms}
	only := ""
	flag.StringVar(&r.version, "version", "", "version of the release, for example v0.1.0")
	flag.StringVar(&r.url, "url", "", "folder that the archives will be downloaded from; default: the release's page on GitHub")
	flag.StringVar(&r.root, "C", ".", "folder of the sources")
	flag.StringVar(&r.out, "o", "dist", "folder to write to")
	flag.StringVar(&only, "only", "", "build only these platforms, for example linux/amd64,darwin/arm64")
	flag.Parse()
	if err := r.choose(only); err != nil {
		fail(err)
	}
	if err := r.build(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "dist:", err)
	os.Exit(1)
}

// choose checks the flags and narrows the platforms.
func (r *release) choose(only string) error {
	if !strings.HasPrefix(r.version, "v") {
		return fmt.Errorf("-version %q: must be like v0.1.0", r.version)
	}
	if r.url == "" {
		r.url = "https://github.com/mesh-audit/mesh-audit/releases/download/" + r.version
	}
	if only == "" {
		return nil
	}
	r.platforms = nil
	for name := range strings.SplitSeq(only, ",") {
		goos, arch, _ := strings.Cut(name, "/")
		r.platforms = append(r.platforms, platform{goos, arch})
	}
	return nil
}

// build writes the archives, checksums.txt and the manifest.
func (r *release) build() error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var built []archive
	for _, p := range r.platforms {
		binary, err := r.compile(p)
		if err != nil {
			return err
		}
		a, err := pack(p, binary, license)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, a.name), a.content, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s  %s  %d bytes\n", a.sha256, a.name, len(a.content))
		built = append(built, a)
	}
	return errors.Join(r.writeChecksums(built), r.writeManifest(built))
}

func (r *release) writeChecksums(built []archive) error {
	var text strings.Builder
	for _, a := range built {
		fmt.Fprintf(&text, "%s  %s\n", a.sha256, a.name)
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(text.String()), 0o644)
}
