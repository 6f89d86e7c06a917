package search

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Approximate memory in bytes that one value of a facet needs besides its text, and that its sum needs.
const (
	valueOverhead = 96
	sumOverhead   = 80
)

// facetValues counts the values of one facet. It keeps new values until its memory is used up. From then on it counts
// only messages with one of the kept values, and estimates the number of different values.
type facetValues struct {
	summing  bool
	memory   *int // bytes of memory that all facets of the request together may still use
	index    map[repository.FacetKind]map[string]int
	values   []countedValue
	messages int64
	missing  int64
	present  []int // the values of the message that is being counted, as indexes in the field values
	any      bool  // whether the message that is being counted has a value of this facet
	others   *distinctSample
}

type countedValue struct {
	text     string
	kind     repository.FacetKind
	messages int64
	last     int64 // number of the last message that was counted with this value
	sum      facetSum
}

func newFacetValues(memory *int, summing bool) *facetValues {
	return &facetValues{memory: memory, summing: summing, index: map[repository.FacetKind]map[string]int{}}
}

// add counts a value of the message that is being counted. Two values are equal when both their kinds and their
// identities are equal.
func (f *facetValues) add(kind repository.FacetKind, identity, text string) {
	f.any = true
	i, known := f.index[kind][identity]
	switch {
	case !known && f.others != nil:
		f.others.add(kind, identity)
		return
	case !known:
		var ok bool
		if i, ok = f.keep(kind, identity, text); !ok {
			return
		}
	}
	if v := &f.values[i]; v.last <= f.messages {
		v.last = f.messages + 1
		v.messages++
		f.present = append(f.present, i)
	}
}

// keep stores a value that occurs for the first time, and returns its index. When the memory is used up, keep returns
// false and begins to estimate the number of different values.
func (f *facetValues) keep(kind repository.FacetKind, identity, text string) (int, bool) {
	size := valueOverhead + len(identity)
	if text != identity {
		size += len(text)
	}
	if f.summing {
		size += sumOverhead
	}
	if *f.memory -= size; *f.memory < 0 {
		f.others = newDistinctSample()
		for kind, values := range f.index {
			for identity := range values {
				f.others.add(kind, identity)
			}
		}
		f.others.add(kind, identity)
		return 0, false
	}
	if f.index[kind] == nil {
		f.index[kind] = map[string]int{}
	}
	// The identity may be a part of a record's text. A copy of it does not keep the whole record in memory.
	own := strings.Clone(identity)
	shown := own
	if text != identity {
		shown = strings.Clone(text)
	}
	i := len(f.values)
	f.index[kind][own] = i
	f.values = append(f.values, countedValue{kind: kind, text: shown, sum: facetSum{asked: f.summing}})
	return i, true
}

// end completes the count of a message. number is the sum of the message's numbers; end adds it to the sum of each
// value that the message has.
func (f *facetValues) end(number amount) {
	for _, i := range f.present {
		f.values[i].sum.add(number)
	}
	if !f.any {
		f.missing++
	}
	f.present, f.any = f.present[:0], false
	f.messages++
}

func (f *facetValues) show(limit int) repository.Facet {
	shown := repository.Facet{Missing: f.missing, Distinct: int64(len(f.values)), Exact: f.others == nil}
	if f.others != nil {
		shown.Distinct = f.others.estimate()
	}
	slices.SortFunc(f.values, func(a, b countedValue) int {
		return cmp.Or(cmp.Compare(b.messages, a.messages), cmp.Compare(a.text, b.text), cmp.Compare(a.kind, b.kind))
	})
	for _, v := range f.values[:min(limit, len(f.values))] {
		shown.Values = append(shown.Values, repository.FacetValue{Kind: v.kind, Text: v.text, Messages: v.messages, Sum: v.sum.show()})
	}
	return shown
}

// facetSum adds up the sums of the numbers of messages.
type facetSum struct {
	asked    bool
	total    decimal.Decimal
	messages int64
}

func (s *facetSum) add(number amount) {
	if s.asked && number.any {
		s.total = s.total.Add(number.sum)
		s.messages++
	}
}

func (s *facetSum) show() repository.FacetSum {
	if !s.asked {
		return repository.FacetSum{}
	}
	return repository.FacetSum{Sum: s.total.String(), Messages: s.messages}
}

// amount is the sum of the numbers of one message.
type amount struct {
	any bool
	sum decimal.Decimal
}

// Limits of a number that is added up; numbers beyond them are ignored. With a larger number, the text of the sum could
// become as long as a producer likes.
const (
	maxNumber   = 100 // longest text of a number, in characters
	maxExponent = 100
)

// add adds a number, which is given as JSON text. It ignores a text that is no number or exceeds the limits.
func (a *amount) add(text string) {
	if len(text) > maxNumber {
		return
	}
	n, err := decimal.NewFromString(text)
	if err != nil || n.Exponent() > maxExponent || n.Exponent() < -maxExponent {
		return
	}
	a.any, a.sum = true, a.sum.Add(n)
}

// maxSample is the maximum number of hashes in a distinctSample.
const maxSample = 1 << 16

// distinctSample estimates the number of different values by adaptive sampling. It keeps the hashes of a share of all
// values, and halves this share whenever there are too many hashes. The standard error is 1.2/sqrt(maxSample), half a
// percent.
type distinctSample struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	skip   uint64 // a hash with one of these bits is not kept
	share  int64  // the sample keeps one of this many different values
}

func newDistinctSample() *distinctSample {
	return &distinctSample{seed: maphash.MakeSeed(), hashes: map[uint64]struct{}{}, share: 1}
}

func (s *distinctSample) add(kind repository.FacetKind, identity string) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(string(kind)) // a hash.Hash never returns an error
	_ = h.WriteByte(0)
	_, _ = h.WriteString(identity)
	sum := h.Sum64()
	if sum&s.skip != 0 {
		return
	}
	s.hashes[sum] = struct{}{}
	for len(s.hashes) > maxSample {
		s.skip, s.share = s.skip<<1|1, 2*s.share
		for sum := range s.hashes {
			if sum&s.skip != 0 {
				delete(s.hashes, sum)
			}
		}
	}
}

func (s *distinctSample) estimate() int64 { return int64(len(s.hashes)) * s.share }
