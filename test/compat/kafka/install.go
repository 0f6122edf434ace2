package kafka

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// DefaultVersion is the Apache Kafka that answers are compared with.
const DefaultVersion = "4.4.0"

// artifact names a jar with what it needs.
type artifact struct {
	Group   string `xml:"groupId"`
	Name    string `xml:"artifactId"`
	Version string `xml:"version"`
}

// CacheDir is the folder that keeps what tests install, by name: jars, virtual environments, built clients. The user's
// cache folder holds it; KBROKER_COMPAT_CACHE replaces that.
func CacheDir(name ...string) (string, error) {
	base := os.Getenv("KBROKER_COMPAT_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(user, "kbroker-compat")
	}
	dir := filepath.Join(append([]string{base}, name...)...)
	return dir, os.MkdirAll(filepath.Dir(dir), 0o755)
}

// Installed makes sure that the folder called name exists in the cache: unless it does, make fills a folder beside it, which
// is renamed once complete. Processes that want the same wait for each other.
func Installed(name string, make func(dir string) error) (string, error) {
	dir, err := CacheDir(name)
	if err != nil {
		return "", err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	part := dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return "", err
	}
	if err := make(part); err != nil {
		return "", fmt.Errorf("install %s: %w", name, errors.Join(err, os.RemoveAll(part)))
	}
	return dir, os.Rename(part, dir)
}

// Install returns the folder with the jars of an Apache Kafka version, broker and tools; it copies them from Maven's
// repository when the cache lacks them.
func Install(ctx context.Context, version string) (string, error) {
	return Installed("kafka-"+version, func(dir string) error {
		err := copyJars(ctx, dir,
			artifact{"org.apache.kafka", "kafka_2.13", version},
			artifact{"org.apache.kafka", "kafka-tools", version})
		if err != nil {
			return err
		}
		return copyJars(ctx, dir, logBinding(dir))
	})
}

// logBinding is the jar that carries log lines to the logging library among the jars. Kafka's own list of dependencies
// leaves it out.
func logBinding(dir string) artifact {
	if cores, _ := filepath.Glob(filepath.Join(dir, "log4j-core-*.jar")); len(cores) == 1 {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(cores[0]), "log4j-core-"), ".jar")
		return artifact{"org.apache.logging.log4j", "log4j-slf4j-impl", version}
	}
	return artifact{"org.slf4j", "slf4j-reload4j", "1.7.36"}
}

// copyJars asks Maven for jars and all that they need at run time.
func copyJars(ctx context.Context, dir string, wanted ...artifact) error {
	project := struct {
		XMLName      xml.Name   `xml:"project"`
		ModelVersion string     `xml:"modelVersion"`
		Group        string     `xml:"groupId"`
		Name         string     `xml:"artifactId"`
		Version      string     `xml:"version"`
		Dependencies []artifact `xml:"dependencies>dependency"`
	}{ModelVersion: "4.0.0", Group: "kbroker", Name: "jars", Version: "1", Dependencies: wanted}
	pom, err := xml.Marshal(project)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", folderPrefix+"pom-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o600); err != nil {
		return err
	}
	cmd := Command(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
