package official

import (
	"context"
	_ "embed" // embeds the script for Node and the file with the pinned versions
	"fmt"
	"os/exec"
)

//go:embed package.json
var nodePackage []byte

//go:embed package-lock.json
var nodePins []byte

//go:embed client.cjs
var nodeScript string

// NodeClient runs @kafkajs/confluent-schema-registry for Node. It is safe for concurrent use.
type NodeClient struct{ program program }

// Node returns the client for Node, after installing it if it is missing.
func Node(ctx context.Context) (*NodeClient, error) {
	paths := map[string]string{}
	for _, tool := range []string{"node", "npm"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			return nil, fmt.Errorf("the client for Node needs %s, which is not on PATH", tool)
		}
		paths[tool] = path
	}
	dir, err := installation{
		name:  "node",
		files: map[string][]byte{"package.json": nodePackage, "package-lock.json": nodePins},
		install: func(ctx context.Context, dir string) error {
			return installer(ctx, dir, paths["npm"], "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		},
	}.ensure(ctx)
	if err != nil {
		return nil, err
	}
	return &NodeClient{program: program{
		dir:     dir,
		command: []string{paths["node"], "--input-type=commonjs", "-e", nodeScript},
	}}, nil
}

// Encode registers schemas and encodes values with the framing Prefix. One child process answers all requests. If the
// client refuses a request, the answer to that request contains the error.
//
// After the id of a Protobuf schema, other clients write indexes that say which message of the schema the value is.
// This client does not write them, so other clients cannot read its Protobuf values.
func (n *NodeClient) Encode(ctx context.Context, requests ...EncodeRequest) ([]Encoded, error) {
	return ask[EncodeRequest, Encoded](ctx, n.program, requests)
}
