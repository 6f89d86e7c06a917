package official

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// maxOutput limits what an error shows of a program's output.
const maxOutput = 4000

// program is a script in a folder with the packages that it needs.
type program struct {
	dir     string
	command []string
	env     []string
}

// ask runs the program, gives it the requests and returns one answer for each request. The program ends when its input
// ends, so it does not outlive this process.
func ask[Q, A any](ctx context.Context, p program, requests []Q) ([]A, error) {
	var in, out, problems bytes.Buffer
	encoder := json.NewEncoder(&in) // writes each request as JSON on a line of its own
	for _, request := range requests {
		if err := encoder.Encode(request); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), append(p.env, "NO_PROXY=*", "no_proxy=*")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w\n%s", p.command[0], err, ending(problems.String()))
	}
	answers := make([]A, 0, len(requests))
	decoder := json.NewDecoder(&out)
	for range requests {
		var answer A
		if err := decoder.Decode(&answer); err != nil {
			return nil, fmt.Errorf("read answer %d of %s: %w\n%s", len(answers)+1, p.command[0], err, ending(problems.String()))
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// installer runs one command of an installation in the folder dir. If the command fails, the error contains its output.
func installer(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, ending(string(output)))
	}
	return nil
}

func ending(text string) string { return text[max(0, len(text)-maxOutput):] }
