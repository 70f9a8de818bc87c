package call

import (
	"sync"
	"time"
)

// Times are counted in buckets: one for each microsecond below 16 µs, and eight for each doubling from there to 38 hours. What is told
// of them, the middle of a bucket, is off by at most a sixteenth.
const (
	bucketsOfOne = 16
	perDoubling  = 8
	doublings    = 33
)

// bounds are the first microsecond of each bucket. The last one has no end.
var bounds = sync.OnceValue(func() []int64 {
	list := make([]int64, 0, bucketsOfOne+perDoubling*doublings)
	for us := int64(1); us < bucketsOfOne; us++ {
		list = append(list, us)
	}
	for width := int64(2); len(list) < cap(list)-1; width *= 2 {
		for i := range int64(perDoubling) {
			list = append(list, (perDoubling+i)*width)
		}
	}
	return list
})

// middleOf is the time that stands for those of a bucket, which are counted from 1.
func middleOf(bucket int) time.Duration {
	first := bounds()[bucket-1]
	last := first
	if bucket < len(bounds()) {
		last = bounds()[bucket] - 1
	}
	return time.Duration(first+last) * time.Microsecond / 2
}
