package conform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// judge runs the judge, or takes its answer from the cache.
func (r *Runner) judge(input string, repeat int) (*report.Report, error) {
	cached, err := r.cacheFile(input, repeat)
	if err != nil {
		return nil, err
	}
	if cached != "" {
		if rep, err := readReport(cached); err == nil {
			return rep, nil
		}
	}
	answer, err := r.answer(input, repeat)
	if err != nil {
		return nil, err
	}
	if cached != "" {
		if err := writeAside(cached, answer); err != nil {
			return nil, err
		}
	}
	rep := &report.Report{}
	return rep, json.Unmarshal(answer, rep)
}

// answer runs the judge.
func (r *Runner) answer(input string, repeat int) ([]byte, error) {
	args := []string{"-f", input, "-repeat", fmt.Sprint(repeat)}
	if r.Lenient {
		args = append(args, "-lenient")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(r.Judge, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("judge: %w: %s", err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// cacheFile names where the answer for an input is kept.
func (r *Runner) cacheFile(input string, repeat int) (string, error) {
	if r.Cache == "" {
		return "", nil
	}
	content, err := readAll(input)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %d %v %s", r.judgeSum, repeat, r.Lenient, sum(content))
	return filepath.Join(r.Cache, sum([]byte(key))+".json"), os.MkdirAll(r.Cache, 0o755)
}

// readAll reads a file, or all files of a folder.
func readAll(path string) ([]byte, error) {
	var out []byte
	err := filepath.Walk(path, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		out = append(append(out, data...), "\n---\n"...)
		return err
	})
	return out, err
}

// readReport reads a kept answer.
func readReport(file string) (*report.Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rep := &report.Report{}
	return rep, json.Unmarshal(data, rep)
}

// writeAside writes a file at once, so that no reader sees half of it.
func writeAside(file string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "part-*")
	if err != nil {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// sum is a short hash.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:16])
}

// tail is the end of a text.
func tail(text string) string {
	const most = 2000
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return text
}
