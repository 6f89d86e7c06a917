package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// A bill of materials in the form of CycloneDX 1.6. It holds no time and no
// chance, so the same sources give the same bill.
type bill struct {
	Schema       string      `json:"$schema"`
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string    `json:"type"`
	Ref      string    `json:"bom-ref"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	URL      string    `json:"purl"`
	Hashes   []hash    `json:"hashes,omitempty"`
	Licences []licence `json:"licenses,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licence struct {
	Licence struct {
		ID string `json:"id"`
	} `json:"license"`
}

const product = "github.com/dlq-manager/dlq-manager"

// writeBill writes the bill of what is shipped, the programs of bin among it when
// they are there.
func writeBill(ctx context.Context, version, path string, out io.Writer) error {
	parts, err := shipped(ctx)
	if err != nil {
		return err
	}
	goVersion, err := goVersion(ctx)
	if err != nil {
		return err
	}
	parts = append(parts, part{ecosystem: "golang", name: "std", version: goVersion})
	b, err := billOf(version, parts)
	if err != nil {
		return err
	}
	for _, p := range programs {
		file := filepath.Join("bin", "dlq-manager-"+filepath.Base(p))
		sum, err := digest(file)
		if err != nil {
			return fmt.Errorf("%w (make build first)", err)
		}
		b.Components = append(b.Components, component{
			Type: "file", Ref: "file:" + filepath.Base(file), Name: filepath.Base(file), Version: version,
			URL: "pkg:generic/" + filepath.Base(file) + "@" + version, Hashes: []hash{{"SHA-256", sum}},
		})
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d components\n", path, len(b.Components))
	return nil
}

func goVersion(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(text)), "go"), nil
}

func billOf(version string, parts []part) (bill, error) {
	url := "pkg:golang/" + product + "@" + version
	b := bill{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{component{Type: "application", Ref: url, Name: product, Version: version, URL: url}},
	}
	names := []string{url}
	for _, p := range parts {
		c := component{Type: "library", Ref: p.url(), Name: p.name, Version: p.version, URL: p.url()}
		found := []string{"BSD-3-Clause"} // of the standard library
		if p.name != "std" {
			var err error
			if found, err = licencesOf(p); err != nil {
				return bill{}, err
			}
		}
		for _, id := range found {
			var l licence
			l.Licence.ID = id
			c.Licences = append(c.Licences, l)
		}
		b.Components = append(b.Components, c)
		names = append(names, c.URL)
	}
	b.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join(names, "\n"))).String()
	return b, nil
}

func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
