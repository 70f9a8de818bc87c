package figures

import "time"

// Durations are counted in buckets: one for each microsecond below 16 µs, then eight for each doubling, up to 38 hours. The reported
// duration is the middle of a bucket, at most a sixteenth off.
const (
	singleBuckets      = 16
	bucketsPerDoubling = 8
	doublings          = 33
)

// bucketStarts returns the first microsecond of each bucket. The last bucket has no end.
func bucketStarts() []int64 {
	starts := make([]int64, singleBuckets-1+bucketsPerDoubling*doublings)
	for i := range starts {
		starts[i], _ = bucketRange(i + 1)
	}
	return starts
}

// bucketRange returns the first microsecond of a bucket and its width. Buckets are numbered from 1.
func bucketRange(bucket int) (first, width int64) {
	if bucket < singleBuckets {
		return int64(bucket), 1
	}
	above := bucket - singleBuckets
	width = 2 << (above / bucketsPerDoubling)
	return int64(bucketsPerDoubling+above%bucketsPerDoubling) * width, width
}

// bucketMiddle returns the duration that stands for those in a bucket.
func bucketMiddle(bucket int) time.Duration {
	first, width := bucketRange(bucket)
	return time.Duration(2*first+width-1) * time.Microsecond / 2
}
