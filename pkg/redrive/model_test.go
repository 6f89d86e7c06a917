package redrive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

const (
	modelSequences = 500
	modelCommands  = 80
	modelGroups    = 4 // number of tests that run in parallel, each with a part of the sequences

	// modelShrinking limits how often a failing sequence is played again to find the commands that it needs.
	modelShrinking = 80
)

// TestModel plays random sequences of requests, crashes, faults and clock steps against several processes that share
// one store and one log. It compares the store and the log with a simple model of the messages' states. It does so
// after each command, and at the end, when all faults are removed and no work is left.
//
// The seed determines a sequence, but not the order of simultaneous events, so it may take several runs to repeat a
// rare failure. DLQ_MODEL_SEED plays only that seed, and DLQ_MODEL_COUNT plays that many seeds from that seed on.
func TestModel(t *testing.T) {
	t.Parallel()
	first, n := modelSeeds(t)
	for group := range uint64(modelGroups) {
		t.Run(fmt.Sprintf("Group%d", group), func(t *testing.T) {
			t.Parallel()
			var total modelScore
			for seed := first + group; seed < first+n && !t.Failed(); seed += modelGroups {
				w := playSeed(t, seed)
				total.add(w.score)
			}
			t.Log(total)
			if n >= modelSequences && !t.Failed() {
				total.wantEnough(t)
			}
		})
	}
}

// TestModelFound plays the sequences that have found a fault and that TestModel does not reach. In 5446, a process gives
// back a batch without results, and another process finishes it: the first must learn the keys that the other blocked.
func TestModelFound(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{5446} {
		playSeed(t, seed)
	}
}

// modelSeeds returns the first seed and the number of seeds; each seed determines one sequence of commands.
func modelSeeds(t *testing.T) (first, n uint64) {
	t.Helper()
	first, n = 1, modelSequences
	if text := os.Getenv("DLQ_MODEL_SEED"); text != "" {
		first, n = modelNumber(t, text), 1
	}
	if text := os.Getenv("DLQ_MODEL_COUNT"); text != "" {
		n = modelNumber(t, text)
	}
	return first, n
}

func modelNumber(t *testing.T, text string) uint64 {
	t.Helper()
	return check.Must(strconv.ParseUint(text, 10, 64))(t)
}

// playSeed plays the sequence of commands of one seed on the memory store. After a failure it reports which commands
// are enough to repeat the failure.
func playSeed(t *testing.T, seed uint64) *world {
	t.Helper()
	open := func() (repository.Repository, func()) { return fake.New(time.Now), func() {} }
	commands := newCommands(rand.New(rand.NewPCG(seed, 1)), modelCommands)
	w := play(t, seed, commands, open)
	if w.failure == "" {
		return w
	}
	short, shortest := shrink(t, w, commands, func(fewer []command) *world { return play(t, seed, fewer, open) })
	t.Errorf("seed %d: %s\n%d of %d commands do it:\n%s", seed, shortest.failure, len(short), len(commands),
		strings.Join(shortest.told, "\n"))
	return w
}

// play plays the commands on a new world in a synctest bubble, and returns this world.
func play(t *testing.T, seed uint64, commands []command, open func() (repository.Repository, func())) *world {
	t.Helper()
	var w *world
	synctest.Test(t, func(*testing.T) {
		store, closeStore := open()
		defer closeStore()
		w = newWorld(seed, store)
		w.play(commands)
	})
	return w
}

// shrink searches for the commands that are enough to repeat a failure. It leaves out halves of the commands first, and
// single commands last. A failure of the same kind counts as the same failure.
func shrink(t *testing.T, failed *world, commands []command, again func([]command) *world) ([]command, *world) {
	t.Helper()
	for size, tries := len(commands)/2, 0; size > 0 && tries < modelShrinking; size /= 2 {
		for from := 0; from < len(commands) && tries < modelShrinking; tries++ {
			fewer := append(append([]command{}, commands[:from]...), commands[min(from+size, len(commands)):]...)
			if w := again(fewer); w.kind == failed.kind {
				commands, failed = fewer, w
			} else {
				from += size
			}
		}
	}
	return commands, failed
}
