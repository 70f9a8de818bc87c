package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const created = "2026-01-02T03:04:05Z"

// makeImages makes the images of two platforms, and returns the folder and what was printed about it.
func makeImages(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, "image")
	args = append([]string{
		"-program", "linux/amd64=" + program, "-program", "linux/arm64=" + program, "-tag", "example.com/holdpoint:1.2.3", "-revision", "abc", "-created", created, "-output", output,
	}, args...)
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	return output
}

func readIndex(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestLayout(t *testing.T) {
	t.Parallel()
	first := makeImages(t)
	index := readIndex(t, first)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %v", platforms)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := readIndex(t, makeImages(t)).Digest(); err != nil || again != digest {
		t.Errorf("the same input makes %s and %s, %v", digest, again, err)
	}
}

// TestArchive reads the image as `docker load` does.
func TestArchive(t *testing.T) {
	t.Parallel()
	image, err := tarball.ImageFromPath(makeImages(t)+"_linux_arm64.tar", nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.Architecture != "arm64" || c.User != "65532:65532" || !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/usr/bin/holdpoint", "health"}) ||
		c.Labels["org.opencontainers.image.version"] != "1.2.3" || config.Created.Format("2006-01-02T15:04:05Z") != created {
		t.Errorf("configuration %+v", config)
	}
	headers, content := readLayers(t, image)
	if h := headers["usr/bin/holdpoint"]; h == nil || h.Mode != 0o755 || content["usr/bin/holdpoint"] != "the program" {
		t.Errorf("the program is %+v", h)
	}
	if h := headers["var/lib/holdpoint/"]; h == nil || h.Uid != account || h.Mode != 0o700 {
		t.Errorf("the data directory is %+v", h)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(content["etc/ssl/certs/ca-certificates.crt"])) || strings.Count(content["etc/ssl/certs/ca-certificates.crt"], "BEGIN") < 100 {
		t.Errorf("there are few certificates: %d bytes", len(content["etc/ssl/certs/ca-certificates.crt"]))
	}
	for name, h := range headers {
		if h.Mode&0o6000 != 0 || !h.ModTime.Equal(config.Created.Time) {
			t.Errorf("%s: mode %o, time %s", name, h.Mode, h.ModTime)
		}
	}
}

// TestRoot: an image with a root file system keeps its files, and its account and certificates come from there.
func TestRoot(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "root.tar")
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	if err := w.WriteHeader(&tar.Header{Name: "usr/bin/node", Mode: 0o755, Size: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("node")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.WriteFile(root, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(makeImages(t, "-root", "linux/amd64="+root)+"_linux_amd64.tar", nil)
	if err != nil {
		t.Fatal(err)
	}
	headers, content := readLayers(t, image)
	if content["usr/bin/node"] != "node" || headers["etc/passwd"] != nil || headers["usr/bin/holdpoint"] == nil {
		t.Errorf("the image has %v", headers)
	}
}

func readLayers(t *testing.T, image v1.Image) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	headers, content := map[string]*tar.Header{}, map[string]string{}
	for _, layer := range layers {
		text, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		files := tar.NewReader(text)
		for {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			inside, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			headers[header.Name], content[header.Name] = header, string(inside)
		}
	}
	return headers, content
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "-program and -output: must be given"},
		{[]string{"-program", "amd64=x", "-output", "y"}, "must be PLATFORM=FILE"},
		{[]string{"-program", "linux/amd64=x", "-output", "y", "-created", "now"}, "-created: must be a time"},
		{[]string{"-program", "linux/amd64=x", "-output", "y", "-root", "linux/arm64=z"}, "-root linux/arm64: must have a -program"},
		{[]string{"-program", "linux/amd64=/nonexistent", "-output", "y"}, "image of linux/amd64: open /nonexistent"},
		{[]string{"-program", "linux/amd64=x", "-output", "y", "-tag", "A B"}, "-tag:"},
	} {
		if err := run(test.args); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: error %v, want one that says %q", test.args, err, test.want)
		}
	}
}
