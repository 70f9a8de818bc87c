package postgres_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

func TestDefaultDataDir(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	asRoot := os.Geteuid() == 0
	for _, test := range []struct {
		name string
		env  map[string]string
		want string // empty if an error is expected
	}{
		{"home", map[string]string{"HOME": home}, filepath.Join(home, ".local", "share", "holdpoint")},
		{"XDG", map[string]string{"HOME": home, "XDG_DATA_HOME": "/xdg"}, "/xdg/holdpoint"},
		{"relative XDG", map[string]string{"HOME": home, "XDG_DATA_HOME": "xdg"}, filepath.Join(home, ".local", "share", "holdpoint")},
		{"no home", nil, ""},
		{"home that is not there", map[string]string{"HOME": "/nonexistent"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := postgres.DefaultDataDir(func(name string) string { return test.env[name] })
			if asRoot {
				test.want = "/var/lib/holdpoint"
			}
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}
