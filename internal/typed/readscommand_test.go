package typed_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/typed"
)

func TestFilesRead(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`cat a.go b/c.go`:                             "a.go b/c.go",
		`cat -n 'a b.go'`:                             "a b.go",
		`sed -n '1,200p' main.go`:                     "main.go",
		`sed -n "10,\$p" main.go`:                     "",
		`nl -ba cmd/main.go | sed -n '1,9p' x`:        "cmd/main.go x",
		`head -50 a`:                                  "a",
		`head -n 50 a`:                                "a",
		`tail -n20 a 2>/dev/null`:                     "a",
		`ls`:                                          ".",
		`ls -la src`:                                  "src",
		`pwd && ls -la`:                               ".",
		`rg -n "func \(s \*Server\)" internal`:        "internal",
		`rg -n TODO`:                                  ".",
		`rg --files -g '*.go'`:                        ". *.go",
		`cat a.go | cut -c1-80`:                       "a.go",
		`pwd && cut -c1-9999 /home/ann/.ssh/id_rsa`:   ". /home/ann/.ssh/id_rsa",
		`rg --files -g '!vendor' src | head -100`:     "src",
		`rg -n -e foo -e bar src`:                     "src",
		`rg -C3 foo src`:                              "src",
		`grep -n foo a.go`:                            "a.go",
		`find . -name '*.go' -not -path './vendor/*'`: ".",
		`find src -type f | sort | head -20`:          "src",
		`git status --short`:                          ".",
		`git --no-pager log --oneline -5`:             ".",
		`git show HEAD~1:a/b.go`:                      "HEAD a/b.go",
		`git diff HEAD^ -- a.go`:                      "HEAD a.go",
		`git branch --show-current`:                   ".",
		`echo ---; cat a.go || true`:                  "a.go",
		`cat a | sort | uniq -c | sort -rn`:           "a",
		`cat ../../etc/passwd`:                        "../../etc/passwd",
		`cat .env`:                                    ".env",
		`wc -l a 2>&1`:                                "a",

		// It does not only read, or a shell would expand something.
		``:                               "",
		` `:                              "",
		`echo hi > file`:                 "",
		`cat a >b`:                       "",
		`cat a 2>b`:                      "",
		`cat a 2>/dev/nullx`:             "",
		`cat < a`:                        "",
		`cat $HOME/a`:                    "",
		`cat "$HOME/a"`:                  "",
		`cat ~/a`:                        "",
		`cat a:~/b`:                      "",
		`cat =ls`:                        "",
		`cat *.go`:                       "",
		`cat {a,b}`:                      "",
		`cat [ab]`:                       "",
		`cat a?`:                         "",
		"cat `id`":                       "",
		`cat $(id)`:                      "",
		`cat "$(id)"`:                    "",
		`cat a & rm b`:                   "",
		`cat a |& cat`:                   "",
		"cat a\nrm b":                    "",
		"cat a\trm":                      "",
		`cat a\ b`:                       "",
		`cat 'a`:                         "",
		`cat a # b`:                      "",
		`cat a; rm b`:                    "",
		`cat a &&`:                       "",
		`| cat a`:                        "",
		`FOO=1 cat a`:                    "",
		`(cat a)`:                        "",
		`sed -i s/a/b/ f`:                "",
		`sed -n '1e id' f`:               "",
		`sed -n '1,2p' -i f`:             "",
		`sed -n '1,2p;w x' f`:            "",
		`sed 's/a/b/' f`:                 "",
		`rg --pre cat foo`:               "",
		`rg foo --glob=.env`:             "",
		`rg -g '.e*' ''`:                 "",
		`rg -g '*' foo`:                  "",
		`rg --pre=id foo`:                "",
		`rg --hidden foo`:                "",
		`rg -uu foo`:                     "",
		`rg -L foo`:                      "",
		`rg -nL foo`:                     "",
		`rg -f patterns src`:             "",
		`rg`:                             "",
		`grep -r foo .`:                  "",
		`grep -f a b`:                    "",
		`find . -delete`:                 "",
		`find . -exec rm a`:              "",
		`find . -fprint a`:               "",
		`find . -name`:                   "",
		`find -L . -name a`:              "",
		`git -c core.pager=id log`:       "",
		`git -C /x status`:               "",
		`git diff --output=a`:            "",
		`git diff --no-index a b`:        "",
		`git diff --ext-diff`:            "",
		`diff folder file`:               "", // it follows the link folder/file
		`diff -r a b`:                    "",
		`git grep -O foo`:                "",
		`git push`:                       "",
		`git branch new`:                 "",
		`git branch -D old`:              "",
		`git remote add x y`:             "",
		`git`:                            "",
		`sort -o a b`:                    "",
		`sort --compress-program=id a`:   "",
		`uniq a b`:                       "",
		`tail -f a`:                      "",
		`tee a`:                          "",
		`xargs rm`:                       "",
		`awk '{print}' a`:                "",
		`env cat a`:                      "",
		`sudo cat a`:                     "",
		`./cat a`:                        "",
		`cat "a!b"`:                      "",
		"cat 'a\u202eb'":                 "",
		"cat a\u00a0b":                   "",
		"cat a\x00":                      "",
		`echo`:                           "",
		`cat`:                            "",
		strings.Repeat("cat a && ", 999): "",
	} {
		if got := strings.Join(typed.FilesRead(command), " "); got != want {
			t.Errorf("FilesRead(%q) = %q, want %q", command, got, want)
		}
	}
}

// FuzzFilesRead finds commands in which a shell would expand or redirect something.
func FuzzFilesRead(f *testing.F) {
	for _, seed := range []string{`cat 'a' | rg "x" -g '*.go'`, `git log --format='%H' -- a`, `sed -n '1p' a; ls`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if len(typed.FilesRead(command)) == 0 {
			return
		}
		plain := strings.NewReplacer("2>/dev/null", "", "2>&1", "").Replace(command)
		for rest := plain; rest != ""; {
			open := strings.IndexAny(rest, `'"`)
			if open < 0 {
				open = len(rest)
			}
			if strings.ContainsAny(rest[:open], "<>$`*?[]{}()\\!#\n\r\t\x00") {
				t.Fatalf("%q is more than words", command)
			}
			if open == len(rest) {
				break
			}
			end := strings.IndexByte(rest[open+1:], rest[open])
			if end < 0 {
				t.Fatalf("%q: a quote does not end", command)
			}
			if rest[open] == '"' && strings.ContainsAny(rest[open+1:open+1+end], "$`") {
				t.Fatalf("%q expands", command)
			}
			rest = rest[open+2+end:]
		}
	})
}
