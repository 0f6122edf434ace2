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

func (rs rows) print(w io.Writer, markdown bool) error {
	if markdown {
		return rs.printMarkdown(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\twhat\tkbroker\tyardstick\tratio\ttarget\t")
	for _, r := range rs {
		fmt.Fprintf(tw, "%s\t%s\t%.4g %s\t%s\t%s\t%s\t%s\n", r.id, r.what, r.kbroker, r.unit, r.yardstickText(), r.ratio(), r.goal(), r.verdict())
	}
	fmt.Fprintf(tw, "\n%s\n", machine())
	return tw.Flush()
}

func (r row) yardstickText() string {
	if r.yardstick == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g (%s)", r.yardstick, r.yardstickName)
}

func (rs rows) printMarkdown(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n| | what | kbroker | yardstick | ratio | target | |\n|---|---|---|---|---|---|---|\n", machine())
	for _, r := range rs {
		if _, err := fmt.Fprintf(w, "| %s | %s | %.4g %s | %s | %s | %s | %s |\n", r.id, r.what, r.kbroker, r.unit, r.yardstickText(), r.ratio(), r.goal(), r.verdict()); err != nil {
			return err
		}
	}
	return nil
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
