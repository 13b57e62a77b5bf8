package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const binaryName = "kubectl-mesh_audit"

// archive is one platform's download.
type archive struct {
	platform
	name    string
	content []byte
	sha256  string // of content, in hex
}

// entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// stamp is the time of every file in the archives: the earliest that zip knows,
// so that the bytes do not tell when they were built.
var stamp = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// compile builds the plugin for a platform and returns the binary.
func (r *release) compile(p platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, binaryName)
	flags := "-s -w -X github.com/mesh-audit/mesh-audit/plugin.released=" + r.version
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out, "./cmd/kubectl-mesh_audit")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build for %s: %w", p, err)
	}
	return os.ReadFile(out)
}

// pack makes the archive of a binary: zip for Windows, tar.gz for the others.
func pack(p platform, binary, license []byte) (archive, error) {
	a := archive{platform: p, name: fmt.Sprintf("%s_%s_%s", binaryName, p.os, p.arch)}
	files := []entry{{p.executable(), 0o755, binary}, {"LICENSE", 0o644, license}}
	write, suffix := tarGzip, ".tar.gz"
	if p.os == "windows" {
		write, suffix = zipped, ".zip"
	}
	a.name += suffix
	var err error
	if a.content, err = write(files); err != nil {
		return a, fmt.Errorf("%s: %w", a.name, err)
	}
	sum := sha256.Sum256(a.content)
	a.sha256 = hex.EncodeToString(sum[:])
	return a, nil
}

// executable is the name of the plugin's file on the platform.
func (p platform) executable() string {
	if p.os == "windows" {
		return binaryName + ".exe"
	}
	return binaryName
}

func tarGzip(files []entry) ([]byte, error) {
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, f := range files {
		head := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: stamp, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func zipped(files []entry) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		head := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: stamp}
		head.SetMode(os.FileMode(f.mode))
		file, err := w.CreateHeader(head)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
