// Command apis writes docs/apis.md from the registrations of the request handlers. It is run by go generate.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/kbroker/kbroker/internal/server/api"
)

func main() {
	out := flag.String("o", "docs/apis.md", "file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := api.WriteDocument(f); err != nil {
		_ = f.Close() // the write error is the one to report
		return err
	}
	return f.Close()
}
