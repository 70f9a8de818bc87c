package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is an entry of a layer. A path that ends with a slash is a folder.
type file struct {
	path    string
	mode    int64
	owner   int
	content []byte
}

// makeLayer makes a layer of files, in their order.
func makeLayer(at time.Time, files []file) (v1.Layer, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, f := range files {
		header := &tar.Header{
			Name: strings.TrimPrefix(f.path, "/"), Typeflag: tar.TypeReg, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: at,
		}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.path, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
}

// makeBase makes the layer below the program. An image from scratch gets an account, folders and CA certificates. The time zones are in the
// program.
func makeBase(fromScratch bool, at time.Time) (v1.Layer, error) {
	data := file{path: dataDir + "/", mode: 0o700, owner: account}
	if !fromScratch {
		return makeLayer(at, []file{data})
	}
	return makeLayer(at, []file{
		{path: "/etc/", mode: 0o755},
		{path: "/etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\nholdpoint:x:%d:%[1]d:Holdpoint:%s:/sbin/nologin\n", account, dataDir)},
		{path: "/etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nholdpoint:x:%d:\n", account)},
		{path: "/etc/nsswitch.conf", mode: 0o644, content: []byte("hosts: files dns\n")},
		{path: "/etc/ssl/", mode: 0o755},
		{path: "/etc/ssl/certs/", mode: 0o755},
		{path: "/etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
		{path: "/tmp/", mode: 0o1777},
		{path: "/usr/", mode: 0o755},
		{path: "/usr/bin/", mode: 0o755},
		{path: "/var/", mode: 0o755},
		{path: "/var/lib/", mode: 0o755},
		data,
	})
}

// certificates returns the authorities of Mozilla's list without constraints, which a PEM file cannot express.
func certificates() []byte {
	var text []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return text
}
