// Command image makes a container image of built programs, without a daemon and without a registry: an OCI layout for all platforms, and an
// archive of each platform for `docker load` and `podman load`. The same input makes the same bytes.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// settings are the flags.
type settings struct {
	programs map[string]string // by platform, such as linux/amd64
	roots    map[string]string // tar files of a root file system, by platform; none: the image has only the program
	tag      string
	revision string
	created  time.Time
	output   string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	s, err := readFlags(args)
	if err != nil {
		return err
	}
	index, err := makeIndex(s)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.output); err != nil {
		return err
	}
	if _, err := layout.Write(s.output, index); err != nil {
		return fmt.Errorf("write %s: %w", s.output, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", s.output, digest)
	return nil
}

func readFlags(args []string) (settings, error) {
	s := settings{programs: map[string]string{}, roots: map[string]string{}}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Func("program", "`PLATFORM=FILE`, such as linux/amd64=holdpoint; repeat for each platform", addPair(s.programs))
	flags.Func("root", "`PLATFORM=FILE` of the tar file of a root file system; repeat for each platform", addPair(s.roots))
	flags.StringVar(&s.tag, "tag", "holdpoint:devel", "name and tag in the archives")
	flags.StringVar(&s.revision, "revision", "", "commit that the programs were built from")
	flags.StringVar(&s.output, "output", "", "folder of the OCI layout; archives are written beside it")
	created := flags.String("created", "1970-01-01T00:00:00Z", "time of all files, in RFC 3339")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	var err error
	if s.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return s, fmt.Errorf("-created: must be a time such as 2026-01-02T03:04:05Z: %w", err)
	}
	if len(s.programs) == 0 || s.output == "" {
		return s, errors.New("-program and -output: must be given")
	}
	for platform := range s.roots {
		if s.programs[platform] == "" {
			return s, fmt.Errorf("-root %s: must have a -program of the same platform", platform)
		}
	}
	return s, nil
}

func addPair(to map[string]string) func(string) error {
	return func(text string) error {
		platform, file, ok := strings.Cut(text, "=")
		if !ok || strings.Count(platform, "/") != 1 {
			return errors.New("must be PLATFORM=FILE, such as linux/amd64=holdpoint")
		}
		to[platform] = file
		return nil
	}
}

// makeIndex makes the image of each platform, writes its archive, and joins them.
func makeIndex(s settings) (v1.ImageIndex, error) {
	tag, err := name.NewTag(s.tag)
	if err != nil {
		return nil, fmt.Errorf("-tag: %w", err)
	}
	platforms := make([]string, 0, len(s.programs))
	for platform := range s.programs {
		platforms = append(platforms, platform)
	}
	slices.Sort(platforms)
	index := v1.ImageIndex(empty.Index)
	for _, platform := range platforms {
		os, arch, _ := strings.Cut(platform, "/")
		image, err := makeImage(s, platform, v1.Platform{OS: os, Architecture: arch})
		if err != nil {
			return nil, fmt.Errorf("image of %s: %w", platform, err)
		}
		archive := filepath.Clean(s.output) + "_" + os + "_" + arch + ".tar"
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return nil, fmt.Errorf("write %s: %w", archive, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}},
		})
	}
	return index, nil
}

const (
	account   = 65532 // numeric, so that Kubernetes can check runAsNonRoot
	dataDir   = "/var/lib/holdpoint"
	program   = "/usr/bin/holdpoint"
	checkTime = 10 * time.Second
)

// makeImage makes the image of a platform. Its manifest has Docker's media types, because OCI's have no health check.
func makeImage(s settings, platform string, p v1.Platform) (v1.Image, error) {
	var layers []v1.Layer
	if root := s.roots[platform]; root != "" {
		layer, err := tarball.LayerFromFile(root)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", root, err)
		}
		layers = append(layers, layer)
	}
	base, err := makeBase(s.roots[platform] == "", s.created)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(s.programs[platform])
	if err != nil {
		return nil, err
	}
	binary, err := makeLayer(s.created, []file{{path: program, mode: 0o755, content: content}})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, append(layers, base, binary)...)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, configure(image, s, p))
}

// configure completes the configuration of an image with layers.
func configure(image v1.Image, s settings, p v1.Platform) *v1.ConfigFile {
	before, err := image.ConfigFile()
	if err != nil { // of an image in memory
		panic(err)
	}
	after := before.DeepCopy()
	after.OS, after.Architecture = p.OS, p.Architecture
	after.Created = v1.Time{Time: s.created}
	after.History = nil
	_, version, _ := strings.Cut(s.tag, ":")
	after.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", account, account),
		WorkingDir:   dataDir,
		Entrypoint:   []string{program},
		Cmd:          []string{"serve"},
		Env:          []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dataDir, "HOLDPOINT_DATA_DIR=" + dataDir, "HOLDPOINT_ADDR=:8080"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{dataDir: {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", program, "health"}, Interval: checkTime, Timeout: checkTime, StartPeriod: time.Minute, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Holdpoint",
			"org.opencontainers.image.source":   "https://github.com/holdpoint/holdpoint",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.revision": cmp.Or(s.revision, "unknown"),
		},
	}
	return after
}
