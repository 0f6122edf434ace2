package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the result.
type row struct {
	id, what            string
	kbroker, yardstick  float64
	unit, yardstickName string
	// lower says that a smaller figure is the better one.
	lower bool
	// target bounds kbroker/yardstick: at most when lower, else at least. 0: no target for the ratio.
	target float64
	// limit bounds kbroker's figure itself in the same sense; 0: none.
	limit float64
}

type rows []row

func (r row) ratio() string {
	if r.yardstick == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.kbroker/r.yardstick)
}

func (r row) verdict() string {
	v, bound := r.kbroker, r.limit
	if r.target != 0 {
		v, bound = r.kbroker/r.yardstick, r.target
	}
	switch {
	case bound == 0:
		return ""
	case r.lower && v <= bound || !r.lower && v >= bound:
		return "met"
	default:
		return "MISSED"
	}
}

func (r row) goal() string {
	sign := ">="
	if r.lower {
		sign = "<="
	}
	switch {
	case r.target != 0:
		return fmt.Sprintf("%s %.2fx", sign, r.target)
	case r.limit != 0:
		return fmt.Sprintf("%s %g %s", sign, r.limit, r.unit)
	}
	return ""
}

// print writes the table as text, or as a page that says by what command it was made.
func (rs rows) print(w io.Writer, markdown bool, command string) error {
	if markdown {
		return rs.printMarkdown(w, command)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\twhat\tkbroker\tyardstick\tratio\ttarget\t")
	for _, r := range rs {
		fmt.Fprintf(tw, "%s\t%s\t%s %s\t%s\t%s\t%s\t%s\n", r.id, r.what, figure(r.kbroker), r.unit, r.yardstickText(), r.ratio(), r.goal(), r.verdict())
	}
	fmt.Fprintf(tw, "\n%s\n", machine())
	return tw.Flush()
}

func (r row) yardstickText() string {
	if r.yardstick == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", figure(r.yardstick), r.yardstickName)
}

// page is docs/performance.md around the table.
const page = `# Performance

Made by %s

on %s.

Each case runs several times, kbroker and its yardstick in turn on the same file system, and the median is shown. The
machine is shared with others: absolute figures move by a factor of two to three between runs, so only the ratios within
one run and the processor seconds per gigabyte of records mean anything. The processor time is that of the broker's
process alone.

The yardsticks are loops that do only what the machine must do (write and sync, read and sum, sendfile), and a prototype
(test/bench/prototype) that does only the data path: it checks checksums and stamps offsets, and has no validation of
records, no indexes, no recovery, no segments and no metrics. A ratio to it is what a broker costs beyond that.

| | what | kbroker | yardstick | ratio | target | |
|---|---|---|---|---|---|---|
`

func (rs rows) printMarkdown(w io.Writer, command string) error {
	if _, err := fmt.Fprintf(w, page, "`"+command+"`", machine()); err != nil {
		return err
	}
	for _, r := range rs {
		if _, err := fmt.Fprintf(w, "| %s | %s | %s %s | %s | %s | %s | %s |\n", r.id, r.what, figure(r.kbroker), r.unit, r.yardstickText(), r.ratio(), r.goal(), r.verdict()); err != nil {
			return err
		}
	}
	return nil
}

// figure writes a number with the digits that mean something.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

// machine says what the figures were measured on.
func machine() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			if v, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimLeft(v, "\t :")
				break
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d cores, %s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model, runtime.Version())
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func percentile(d []time.Duration, p float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(p*float64(len(s))))]
}
