package stack

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// KafkaTool returns a command that runs one of Kafka's command line tools, which is named by its class. The tool has a
// heap of heapMB megabytes and the garbage collector of Kafka's start scripts. Tools that need other jars than the
// broker's do not work. KafkaTool downloads the jars if they are missing; there is no stand-in.
func KafkaTool(ctx context.Context, heapMB int, class string, args ...string) (*exec.Cmd, error) {
	return javaTool(ctx, "kafka", kafkaPinsOf(readEnvironment(os.Getenv)), heapMB, class, args...)
}

// KafkaProgram prepares a Java program of one source file, with its class and Kafka's clients on the
// class path. It compiles the program once into the cache, and downloads the jars if they are missing.
func KafkaProgram(ctx context.Context, heapMB int, class string, source []byte, args ...string) (*exec.Cmd, error) {
	return JavaProgram(ctx, "kafka", kafkaPinsOf(readEnvironment(os.Getenv)), heapMB, class, source, class, args...)
}

// JavaProgram prepares the Java program whose main class is main. On its class path are the classes of one source file,
// which it compiles once into the cache, and the jars of pins, a pom.xml, which it downloads if they are missing. name
// is unique to pins, and class is the public class of the source file.
func JavaProgram(
	ctx context.Context, name string, pins []byte, heapMB int, class string, source []byte, main string, args ...string,
) (*exec.Cmd, error) {
	env := readEnvironment(os.Getenv)
	java, jars, err := javaArtefacts(ctx, env, name, pins)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", class, err)
	}
	cache, err := cacheFolder(env)
	if err != nil {
		return nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil {
		return nil, err
	}
	classPath := func(last string) string { return strings.Join(append(libraries, last), string(filepath.ListSeparator)) }
	program := artefact{
		name:  "jar-" + class,
		files: map[string][]byte{class + ".java": source, "pom.xml": pins, "classes/log4j2.xml": kafkaLogging},
		install: func(ctx context.Context, dir string) error {
			classes := filepath.Join(dir, "classes")
			cmd := exec.Command(java, "--module", "jdk.compiler/com.sun.tools.javac.Main",
				"-cp", classPath(classes), "-d", classes, filepath.Join(dir, class+".java"))
			if err := run(ctx, cmd, filepath.Join(dir, "install.log")); err != nil {
				return err
			}
			return writeJar(filepath.Join(dir, programJar), classes)
		},
	}
	dir, err := program.ensure(ctx, cache)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", class, err)
	}
	options := []string{
		"-Xmx" + strconv.Itoa(heapMB) + "m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", classPath(filepath.Join(dir, programJar)), main,
	}
	return exec.Command(java, append(options, args...)...), nil
}

// programJar is the jar with a compiled program. The class path has no folders, because the JVM writes no archive of
// classes for a program that has one.
const programJar = "program.jar"

// writeJar writes a jar with all files of a folder.
func writeJar(path, folder string) error {
	var packed bytes.Buffer
	jar := zip.NewWriter(&packed)
	if err := errors.Join(jar.AddFS(os.DirFS(folder)), jar.Close()); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}

// KafkaConnect prepares a standalone worker of Kafka Connect with Debezium's JDBC sink and
// PostgreSQL's driver; args are its configuration files. It downloads the jars if they are missing.
func KafkaConnect(ctx context.Context, heapMB int, args ...string) (*exec.Cmd, error) {
	return javaTool(ctx, "connect", connectPins, heapMB, "org.apache.kafka.connect.cli.ConnectStandalone", args...)
}

// JavaSource returns a command that runs a Java program of one source file; java compiles the file at each start. pins
// is a pom.xml with the jars that the program needs, and name must be used for this pom.xml only. JavaSource downloads
// the jars if they are missing.
func JavaSource(ctx context.Context, name string, pins []byte, heapMB int, source string, args ...string) (*exec.Cmd, error) {
	return javaTool(ctx, name, pins, heapMB, source, args...)
}

// MavenProgram prepares a Java program that Maven builds once into the cache. files are its pom.xml and its sources; jar
// is the executable jar of the build. name is unique to the program.
func MavenProgram(ctx context.Context, name string, files map[string][]byte, heapMB int, jar string) (*exec.Cmd, error) {
	env := readEnvironment(os.Getenv)
	java, err := findJava(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	cache, err := cacheFolder(env)
	if err != nil {
		return nil, err
	}
	install := func(ctx context.Context, dir string) error { return maven(ctx, env, dir, "package") }
	dir, err := artefact{name: "maven-" + name, files: files, install: install}.ensure(ctx, cache)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", name, err)
	}
	return exec.CommandContext(ctx, java, "-Xmx"+strconv.Itoa(heapMB)+"m", "-jar", filepath.Join(dir, jar)), nil
}

func javaTool(ctx context.Context, artefact string, pins []byte, heapMB int, class string, args ...string) (*exec.Cmd, error) {
	java, jars, err := javaArtefacts(ctx, readEnvironment(os.Getenv), artefact, pins)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", class, err)
	}
	options := []string{"-Xmx" + strconv.Itoa(heapMB) + "m", "-XX:+UseG1GC", "-cp", filepath.Join(jars, "*"), class}
	return exec.CommandContext(ctx, java, append(options, args...)...), nil
}
