package postgres

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// PrivatePaths returns the database's sockets, and the files of credentials that Config names. No other program may reach
// them. An invalid Config has none.
func PrivatePaths(cfg Config, getenv func(string) string) []string {
	paths := []string{getenv("PGPASSFILE"), getenv("PGSSLKEY")}
	if cfg.DatabaseURL == "" {
		dir, err := filepath.Abs(filepath.Join(cfg.DataDir, "postgres"))
		if err != nil {
			return nil
		}
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			dir = resolved
		}
		socketDir, err := chooseSocketDir(dir)
		if err != nil {
			return nil
		}
		return []string{socketIn(socketDir, socketPort)}
	}
	for _, databaseURL := range []string{cfg.DatabaseURL, cfg.SessionURL} {
		paths = append(paths, pathsIn(databaseURL)...)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
}

// pathsIn returns the files and sockets that a connection string names, and strings that are no absolute paths.
func pathsIn(databaseURL string) (paths []string) {
	if databaseURL == "" {
		return nil
	}
	if parsed, err := parseURL(databaseURL); err == nil {
		paths = append(paths, socketIn(parsed.ConnConfig.Host, parsed.ConnConfig.Port))
		for _, other := range parsed.ConnConfig.Fallbacks {
			paths = append(paths, socketIn(other.Host, other.Port))
		}
	}
	if u, err := url.Parse(databaseURL); err == nil && u.Scheme != "" {
		paths = append(paths, u.Query().Get("passfile"), u.Query().Get("sslkey"))
	} else {
		for word := range strings.FieldsSeq(databaseURL) {
			if name, value, _ := strings.Cut(word, "="); name == "passfile" || name == "sslkey" {
				paths = append(paths, strings.Trim(value, "'"))
			}
		}
	}
	return paths
}

// socketIn returns the path of a server's socket. If host is not a folder, the path is not absolute.
func socketIn(host string, port uint16) string {
	return filepath.Join(host, fmt.Sprintf(".s.PGSQL.%d", port))
}
