package stack

import (
	"context"
	_ "embed" // for the pinned versions
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

//go:embed kafka/pom.xml
var kafkaPins []byte

//go:embed connect/pom.xml
var connectPins []byte

//go:embed kafka/log4j2.xml
var kafkaLogging []byte

const (
	pinnedKafka = "Apache Kafka 4"
	oldestJava  = 17
)

var kafkaVersion = regexp.MustCompile(`<kafka\.version>.*</kafka\.version>`)

// kafkaArtefacts returns the java program and the folder with Kafka's jars.
func kafkaArtefacts(ctx context.Context, env environment) (java, jars string, err error) {
	return javaArtefacts(ctx, env, "kafka", kafkaPinsOf(env))
}

// kafkaPinsOf returns the pom.xml with the pinned versions, in which the version of Kafka is replaced if the
// environment selects another one.
func kafkaPinsOf(env environment) []byte {
	if env.kafkaVersion == "" {
		return kafkaPins
	}
	return kafkaVersion.ReplaceAllLiteral(kafkaPins, []byte("<kafka.version>"+env.kafkaVersion+"</kafka.version>"))
}

// javaArtefacts returns the path of the java program, and the folder with the jars that the pom.xml in pins names. It
// downloads the jars if they are missing.
func javaArtefacts(ctx context.Context, env environment, name string, pins []byte) (java, jars string, err error) {
	if env.forceFallback {
		return "", "", errForced
	}
	if java, err = findJava(ctx, env); err != nil {
		return "", "", err
	}
	cache, err := cacheFolder(env)
	if err != nil {
		return "", "", err
	}
	pinned := artefact{
		name:    name,
		files:   map[string][]byte{"pom.xml": pins},
		install: func(ctx context.Context, dir string) error { return mavenInstall(ctx, env, dir) },
	}
	dir, err := pinned.ensure(ctx, cache)
	return java, filepath.Join(dir, "jars"), err
}

// mavenInstall copies the dependencies of dir/pom.xml, including transitive ones, into dir/jars.
func mavenInstall(ctx context.Context, env environment, dir string) error {
	return maven(ctx, env, dir, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "jars"))
}

// maven runs Maven for dir/pom.xml.
func maven(ctx context.Context, env environment, dir string, args ...string) error {
	mvn, err := lookPath(env.path, "mvn")
	if err != nil {
		return err
	}
	cmd := exec.Command(mvn, append([]string{"-q", "-B", "-Dstyle.color=never"}, args...)...)
	cmd.Dir = dir
	return run(ctx, cmd, filepath.Join(dir, "install.log"))
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// findJava returns a Java that can run Kafka, preferring JAVA_HOME.
func findJava(ctx context.Context, env environment) (string, error) {
	path := env.path
	if env.javaHome != "" {
		path = filepath.Join(env.javaHome, "bin") + string(filepath.ListSeparator) + path
	}
	java, err := lookPath(path, "java")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", java, err)
	}
	match := javaVersion.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("%s does not tell its version", java)
	}
	if major, err := strconv.Atoi(string(match[1])); err != nil || major < oldestJava {
		return "", fmt.Errorf("%s is Java %s, Kafka needs %d", java, match[1], oldestJava)
	}
	return java, nil
}
