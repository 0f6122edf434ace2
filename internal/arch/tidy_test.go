package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	maxFileLines     = 800
	maxFunctionLines = 70
)

// sourceFiles calls fn for every tracked-looking file of the tree with one of the endings, named from the root.
func sourceFiles(t *testing.T, fn func(name string, content []byte), endings ...string) {
	t.Helper()
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); path != root && (n == "testdata" || n == "node_modules" || n == "bin" || strings.HasPrefix(n, ".") && n != ".ci") {
				return fs.SkipDir
			}
			return nil
		}
		for _, e := range endings {
			if strings.HasSuffix(path, e) {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fn(strings.TrimPrefix(path, root+"/"), b)
				return nil
			}
		}
		return nil
	})
	require.NoError(t, err)
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	sourceFiles(t, func(name string, content []byte) {
		if n := bytes.Count(content, []byte("\n")); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it", name, n, maxFileLines)
		}
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, content, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fd, ok := d.(*ast.FuncDecl)
			if !ok || fd.Body == nil {
				continue
			}
			n := fset.Position(fd.End()).Line - fset.Position(fd.Pos()).Line + 1
			if n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, more than %d: split it", name, fd.Name.Name, n, maxFunctionLines)
			}
		}
	}, ".go")
}

func TestEveryPackageIntroducesItself(t *testing.T) {
	documented := map[string]int{}
	sourceFiles(t, func(name string, content []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		dir := filepath.Dir(name)
		if documented[dir] += 0; f.Doc != nil {
			documented[dir]++
		}
	}, ".go")
	for dir, n := range documented {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, n)
		}
	}
}

var unfinished = regexp.MustCompile(`\b(` + "TODO" + `|` + "FIXME" + `|` + "XXX" + `|not ` + `implemented|for ` + `now)\b`)

// The tree speaks of the project alone and leaves nothing for later.
func TestNothingUnfinishedIsLeft(t *testing.T) {
	sourceFiles(t, func(name string, content []byte) {
		if name == "internal/arch/tidy_test.go" {
			return
		}
		for i, line := range strings.Split(string(content), "\n") {
			if m := unfinished.FindString(line); m != "" {
				t.Errorf("%s:%d: %q: finish it or say what holds", name, i+1, m)
			}
		}
	}, ".go", ".sh", "Makefile", ".mk")
}

func TestMarkdownHasOneTitle(t *testing.T) {
	sourceFiles(t, func(name string, content []byte) {
		titles, fenced := 0, false
		for _, line := range strings.Split(string(content), "\n") {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if !fenced && strings.HasPrefix(line, "# ") {
				titles++
			}
		}
		if titles != 1 {
			t.Errorf("%s has %d first-level titles, want 1", name, titles)
		}
	}, ".md")
}
