package redrive

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// verb is the kind of a command.
type verb string

// The kinds of commands.
const (
	cmdAdd       verb = "add messages"
	cmdReturn    verb = "a record comes back"
	cmdRetry     verb = "retry"
	cmdAccept    verb = "retry, accepting a duplicate"
	cmdTwice     verb = "retry, sent again"
	cmdEdit      verb = "edit and retry"
	cmdRequeue   verb = "requeue"
	cmdDead      verb = "dead"
	cmdDelete    verb = "delete"
	cmdBegin     verb = "begin redrive"
	cmdPause     verb = "pause"
	cmdResume    verb = "resume"
	cmdContinue  verb = "continue"
	cmdCancel    verb = "cancel"
	cmdAuto      verb = "automatic retry on or off"
	cmdSettle    verb = "settle"
	cmdStart     verb = "start a process"
	cmdStop      verb = "end a process"
	cmdCrash     verb = "crash a process"
	cmdFreeze    verb = "stop a process for a while"
	cmdLose      verb = "lose an answer of the store"
	cmdBroker    verb = "broker"
	cmdHealthy   verb = "broker is well"
	cmdStore     verb = "store away for a while"
	cmdLock      verb = "another session locks rows"
	cmdTruncate  verb = "a log loses its beginning"
	cmdOutage    verb = "everything crashes, hours pass"
	cmdLongSleep verb = "minutes pass"
	cmdSleep     verb = "time passes"
)

// verbs lists the kinds of commands; a kind with a larger weight is chosen more often.
var verbs = []struct {
	verb   verb
	weight int
}{
	{cmdAdd, 4},
	{cmdReturn, 5},
	{cmdRetry, 10},
	{cmdAccept, 4},
	{cmdTwice, 4},
	{cmdEdit, 5},
	{cmdRequeue, 5},
	{cmdDead, 3},
	{cmdDelete, 2},
	{cmdBegin, 12},
	{cmdPause, 3},
	{cmdResume, 4},
	{cmdContinue, 2},
	{cmdCancel, 1},
	{cmdAuto, 3},
	{cmdSettle, 2},
	{cmdStart, 5},
	{cmdStop, 2},
	{cmdCrash, 7},
	{cmdFreeze, 7},
	{cmdLose, 5},
	{cmdBroker, 5},
	{cmdHealthy, 4},
	{cmdStore, 2},
	{cmdLock, 4},
	{cmdTruncate, 3},
	{cmdOutage, 1},
	{cmdLongSleep, 1},
	{cmdSleep, 16},
}

// command is one step of a sequence. Its numbers select from the messages, redrives and processes that exist when the
// step is executed. So the step can still be executed when shrink leaves out other steps.
type command struct {
	verb    verb
	a, b, c uint64
}

func (c command) String() string {
	return fmt.Sprintf("%s (%d, %d, %d)", c.verb, c.a%1000, c.b%1000, c.c%1000)
}

func newCommands(rng *rand.Rand, n int) []command {
	total := 0
	for _, v := range verbs {
		total += v.weight
	}
	commands := make([]command, n)
	for i := range commands {
		at := rng.IntN(total)
		for _, v := range verbs {
			if at -= v.weight; at < 0 {
				commands[i] = command{v.verb, rng.Uint64(), rng.Uint64(), rng.Uint64()}
				break
			}
		}
	}
	return commands
}

// rng returns a source of random numbers for the execution of the command. It depends only on the command's own
// numbers.
func (c command) rng() *rand.Rand { return rand.New(rand.NewPCG(c.b, c.c)) }

// pick returns an element of the list; the number by decides which. ok is false when the list is empty.
func pick[T any](all []T, by uint64) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[by%uint64(len(all))], true
}

// upTo returns a random duration between from and to.
func upTo(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
