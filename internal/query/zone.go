package query

import (
	"errors"
	"regexp"
	"sync"
	"time"
)

// zoneName is the form of the names of the tz database. It excludes paths outside of it.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)

// zones caches the zones that exist by their names, since reading one takes a file.
var zones sync.Map //nolint:gochecknoglobals // a cache of constants

// ParseZone returns the time zone with a name of the tz database, such as "Europe/Berlin". Empty: UTC.
func ParseZone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil //nolint:forcetypeassert // zones has no other type
	}
	if name != "Local" && zoneName.MatchString(name) {
		if zone, err := time.LoadLocation(name); err == nil {
			zones.Store(name, zone)
			return zone, nil
		}
	}
	return nil, errors.New("must be a time zone, such as Europe/Berlin")
}
