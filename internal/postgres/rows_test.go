package postgres_test

import (
	"reflect"
	"testing"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

func TestForOneRow(t *testing.T) {
	t.Parallel()
	got := postgres.ForOneRow("INSERT INTO t (a, b) SELECT a, b FROM unnest((SELECT $1::uuid[]), $2::text[],\n\t$3::jsonb[])\n\tAS e(a, b, c) WHERE a <> ALL($4::uuid[])")
	if want := "INSERT INTO t (a, b) SELECT a, b FROM (SELECT $1::uuid, $2::text,\n\t$3::jsonb)\n\tAS e(a, b, c) WHERE a <> ALL($4::uuid[])"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	word := "x"
	row := postgres.FirstRow([]any{[]int64{7, 8}, []*string{&word, nil}, []*string{nil}, [][]byte{nil}})
	if want := []any{int64(7), &word, (*string)(nil), []byte(nil)}; !reflect.DeepEqual(row, want) {
		t.Errorf("%v, want %v", row, want)
	}
}
