package postgres

// MaxPage is the largest number of rows of a page.
const MaxPage = 200

const defaultPage = 50

// PageLength returns the number of rows of a page: 50 if the caller gives no limit, and at most [MaxPage].
func PageLength(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, MaxPage)
}
