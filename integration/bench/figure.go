package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// maxMemory is the limit in MB for the peak of resident memory of each measured program on its own. A program that
// reaches it has missed its limit.
const maxMemory = 128

// figure is one measured result of a part of the benchmark.
type figure struct {
	side          *side
	Part          string  `json:"part"`
	Name          string  `json:"name"`
	Unit          string  `json:"unit"`
	Value         float64 `json:"value"`
	Skipped       string  `json:"skipped,omitempty"` // reason why the figure has no value
	MoreIsBetter  bool    `json:"more_is_better"`
	Limit         float64 `json:"limit,omitempty"`         // bound for the value, see the method limit; 0: none
	ComparedWith  string  `json:"compared_with,omitempty"` // another tool or method, with its value in ComparedValue
	ComparedValue float64 `json:"compared_value,omitempty"`

	Load   float64 `json:"load_average"` // load average of the machine, over one minute
	Others float64 `json:"others"`       // share of processor time, 0 to 1, that the method others returned
}

func skipped(name, reason string) figure { return figure{Name: name, Skipped: reason} }

// limit returns the figure with a limit. The value must be below the limit; if more is better, it must be at least as
// large as the limit.
func (f figure) limit(v float64) figure {
	f.Limit = v
	return f
}

func (f figure) comparedWith(what string, value float64) figure {
	f.ComparedWith, f.ComparedValue = what, value
	return f
}

func (f figure) missed() bool {
	return f.Limit != 0 && f.Skipped == "" && (f.Value < f.Limit) == f.MoreIsBetter
}

func (f figure) text() string {
	if f.Skipped != "" {
		return "skipped: " + f.Skipped
	}
	return number(f.Value) + " " + f.Unit
}

// section holds the measurements that were taken while one piece of work was done.
type section struct {
	n      int
	took   time.Duration
	cpu    usage
	memory float64 // the program's peak of resident memory, in MB
}

// timed measures the function work, which returns how many units, such as messages, it has processed.
func timed(work func() (n int)) (s section) {
	before, start := usageNow(), time.Now()
	s.n = work()
	s.took = time.Since(start)
	s.cpu = usageNow().since(before)
	return s
}

func (s section) perSecond() float64 { return quotient(float64(s.n), s.took.Seconds()) }

// figure returns a value measured in the section. For rates and shares, more is better.
func (s section) figure(name, unit string, value float64) figure {
	return figure{Name: name, Unit: unit, Value: value, MoreIsBetter: unit == "/s" || unit == "%", Load: s.cpu.load, Others: s.cpu.others()}
}

func (s section) rate(name string) figure { return s.figure(name, "/s", s.perSecond()) }

// resident returns the peak memory of the measured program as a figure.
func (s section) resident(name string) figure {
	return s.figure(name, "MB", s.memory).limit(maxMemory)
}

// micros returns the processor time per unit of work, in µs, of one program, or of all programs if
// program is "".
func (s section) micros(program string) float64 {
	var sum time.Duration
	for name, used := range s.cpu.by {
		if program == "" || name == program {
			sum += used
		}
	}
	return quotient(float64(sum.Microseconds()), float64(s.n))
}

// processors returns the processor time per row of each of these programs, as figures.
func (s section) processors(work string, programs ...string) (all []figure) {
	for _, name := range programs {
		shown := cmp.Or(map[string]string{"postgres": "PostgreSQL", "java": "Kafka"}[name], name)
		all = append(all, s.figure(work+", processor time of "+shown, "µs a row", s.micros(name)))
	}
	return all
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// quantile returns the smallest of the values such that at least the given share of the values is not larger: the
// median for 0.5. It returns 0 without values.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := int(math.Ceil(float64(len(sorted))*share-1e-9)) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// median returns the median of values; 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// interval returns a confidence interval of the median of the distribution that the values come from, and its coverage:
// the narrowest interval between two order statistics that covers at least 95 % by the sign test. Fewer than six values
// cannot reach 95 %: then interval returns the range of the values and the coverage of this range.
func interval(values []float64) (low, high, coverage float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	// tail is the probability that at most k of n values are below the median.
	tail, chance, k := 0.0, math.Pow(0.5, float64(n)), 0
	for k < n/2 && (k == 0 || tail+chance <= 0.025) {
		tail += chance
		chance *= float64(n-k) / float64(k+1)
		k++
	}
	if k == 0 { // a single value
		return sorted[0], sorted[0], 0
	}
	return sorted[k-1], sorted[n-k], 1 - 2*tail
}

// number rounds numbers from 1,000 on and formats them with commas. Smaller numbers get at most two decimals.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1000:
		return thousands(int(math.Round(v)))
	case abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// thousands formats 1234567 as 1,234,567.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
