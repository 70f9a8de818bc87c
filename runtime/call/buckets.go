package call

import "time"

// Times are counted in buckets: one for each microsecond below 16 µs, and eight for each doubling from there to 38 hours. What is told
// of them, the middle of a bucket, is off by at most a sixteenth.
const (
	bucketsOfOne = 16
	perDoubling  = 8
	doublings    = 33
)

// bounds are the first microsecond of each bucket. The last one has no end.
func bounds() []int64 {
	list := make([]int64, bucketsOfOne-1+perDoubling*doublings)
	for i := range list {
		list[i], _ = bucketOf(i + 1)
	}
	return list
}

// bucketOf is the first microsecond of a bucket, which are counted from 1, and how many it has.
func bucketOf(bucket int) (first, width int64) {
	if bucket < bucketsOfOne {
		return int64(bucket), 1
	}
	above := bucket - bucketsOfOne
	width = 2 << (above / perDoubling)
	return int64(perDoubling+above%perDoubling) * width, width
}

// middleOf is the time that stands for those of a bucket.
func middleOf(bucket int) time.Duration {
	first, width := bucketOf(bucket)
	return time.Duration(2*first+width-1) * time.Microsecond / 2
}
