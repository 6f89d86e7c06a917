package official

import (
	"context"
	_ "embed" // embeds the script for Python and the file with the pinned versions
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

//go:embed requirements.txt
var pythonPins []byte

//go:embed client.py
var pythonScript string

// PythonClient runs confluent-kafka for Python. It is safe for concurrent use.
type PythonClient struct{ program program }

const (
	venvFolder   = "venv"
	targetFolder = "packages"
)

// Python returns the client for Python, after installing it if it is missing.
func Python(ctx context.Context) (*PythonClient, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, errors.New("the client for Python needs python3, which is not on PATH")
	}
	version, err := exec.CommandContext(ctx, python, "-c", "import sys; print(sys.executable, sys.version)").Output()
	if err != nil {
		return nil, fmt.Errorf("ask python3 for its version: %w", err)
	}
	dir, err := installation{
		name:    "python",
		tool:    string(version),
		files:   map[string][]byte{"requirements.txt": pythonPins},
		install: func(ctx context.Context, dir string) error { return installPython(ctx, python, dir) },
	}.ensure(ctx)
	if err != nil {
		return nil, err
	}
	return &PythonClient{program: pythonProgram(python, dir)}, nil
}

// installPython installs the packages into a virtual environment. On systems whose python3 has no venv or no ensurepip,
// it installs the packages into a plain folder.
func installPython(ctx context.Context, python, dir string) error {
	venvErr := installer(ctx, dir, python, "-m", "venv", venvFolder)
	if venvErr == nil {
		return installer(ctx, dir, venvPython(dir), pip()...)
	}
	err := installer(ctx, dir, python, append(pip(), "--target", targetFolder)...)
	if err != nil {
		return fmt.Errorf("python3 has neither venv nor pip (on Debian: apt-get install python3-venv): %w", errors.Join(venvErr, err))
	}
	return nil
}

func pip() []string {
	return []string{"-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"}
}

func venvPython(dir string) string { return filepath.Join(dir, venvFolder, "bin", "python") }

func pythonProgram(python, dir string) program {
	if packages := filepath.Join(dir, targetFolder); exists(packages) {
		return program{dir: dir, command: []string{python, "-c", pythonScript}, env: []string{"PYTHONPATH=" + packages}}
	}
	return program{dir: dir, command: []string{venvPython(dir), "-c", pythonScript}}
}

// Encode registers schemas and encodes values. One child process answers all requests. If the client refuses a
// request, the answer to that request contains the error.
func (p *PythonClient) Encode(ctx context.Context, requests ...EncodeRequest) ([]Encoded, error) {
	return ask[EncodeRequest, Encoded](ctx, p.program.with("encode"), requests)
}

// Decode decodes values. One child process answers all requests. If the client refuses a request, the answer to that
// request contains the error.
func (p *PythonClient) Decode(ctx context.Context, requests ...DecodeRequest) ([]Decoded, error) {
	return ask[DecodeRequest, Decoded](ctx, p.program.with("decode"), requests)
}

// with returns the program with one more command-line argument.
func (p program) with(argument string) program {
	p.command = append(p.command[:len(p.command):len(p.command)], argument)
	return p
}
