package bucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// made returns the configuration of a new bucket, and a client of the store that is not the product's.
func made(t *testing.T, opts minio.MakeBucketOptions) (Config, *minio.Client) {
	t.Helper()
	server := stacktest.S3(t)
	cfg := Config{
		Endpoint: server.Endpoint, Region: server.Region, Bucket: "b-" + uuid.NewString(), Prefix: "dlq/", PathStyle: true,
		AccessKeyFile: filepath.Join(t.TempDir(), "access"), SecretKeyFile: filepath.Join(t.TempDir(), "secret"),
	}
	check.NoError(t, os.WriteFile(cfg.AccessKeyFile, []byte(server.AccessKey+"\n"), 0o600))
	check.NoError(t, os.WriteFile(cfg.SecretKeyFile, []byte(server.Secret+"\n"), 0o600))
	client := check.Must(minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.Secret, ""), Region: server.Region,
	}))(t)
	opts.Region = server.Region
	check.NoError(t, client.MakeBucket(t.Context(), cfg.Bucket, opts))
	return cfg, client
}

func TestBucket(t *testing.T) {
	t.Parallel()
	cfg, client := made(t, minio.MakeBucketOptions{})
	b := check.Must(Open(cfg))(t)
	check.NoError(t, b.Check(t.Context()))
	key := b.Key("day=2026-11-25/a.parquet")

	check.Is(t, check.Err(b.Read(t.Context(), key, 0, 10)), ErrGone, "reading an object that does not exist")
	check.NoError(t, b.Put(t.Context(), key, []byte("0123456789")))
	check.Same(t, string(check.Must(b.Read(t.Context(), key, 2, 3))(t)), "234", "a part")
	check.Same(t, string(check.Must(b.Read(t.Context(), key, 8, 100))(t)), "89", "a part at the end")
	_, err := client.StatObject(t.Context(), cfg.Bucket, "dlq/day=2026-11-25/a.parquet", minio.StatObjectOptions{})
	check.NoError(t, err)

	until := check.Must(b.Delete(t.Context(), key))(t)
	check.True(t, until.IsZero(), "retained until %s, want not retained", until)
	check.Is(t, check.Err(b.Read(t.Context(), key, 0, 10)), ErrGone, "reading a deleted object")
	check.NoError(t, check.Err(b.Delete(t.Context(), key)))
}

func versionsOf(ctx context.Context, client *minio.Client, bucket string) (keys []string) {
	for v := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{WithVersions: true, Recursive: true}) {
		keys = append(keys, v.Key)
	}
	return keys
}

func TestBucket_DeletesAllVersionsOfOneObject(t *testing.T) {
	t.Parallel()
	cfg, client := made(t, minio.MakeBucketOptions{})
	check.NoError(t, client.EnableVersioning(t.Context(), cfg.Bucket))
	b := check.Must(Open(cfg))(t)
	for range 3 {
		check.NoError(t, b.Put(t.Context(), b.Key("a"), []byte("bytes")))
	}
	check.NoError(t, b.Put(t.Context(), b.Key("a2"), []byte("another object")))
	check.NoError(t, client.RemoveObject(t.Context(), cfg.Bucket, b.Key("a"), minio.RemoveObjectOptions{})) // only marks it
	check.Len(t, versionsOf(t.Context(), client, cfg.Bucket), 5, "versions before")
	check.NoError(t, check.Err(b.Delete(t.Context(), b.Key("a"))))
	check.Same(t, versionsOf(t.Context(), client, cfg.Bucket), []string{"dlq/a2"}, "versions")
}

func TestBucket_ALateListOfVersionsDoesNotEndADeletion(t *testing.T) {
	t.Parallel()
	cfg, client := made(t, minio.MakeBucketOptions{})
	check.NoError(t, client.EnableVersioning(t.Context(), cfg.Bucket))
	store := httputil.NewSingleHostReverseProxy(check.Must(url.Parse(cfg.Endpoint))(t))
	var late, marked atomic.Bool
	store.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusNotFound && marked.Load() {
			r.Header.Set("x-amz-delete-marker", "true") // Amazon's store sends this header, but the store of this test does not
		}
		return nil
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, versions := r.URL.Query()["versions"]; versions && late.Load() {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = io.WriteString(w, `<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>`+cfg.Bucket+
				`</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListVersionsResult>`)
			return
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	cfg.Endpoint = proxy.URL
	b := check.Must(Open(cfg))(t)
	check.NoError(t, b.Put(t.Context(), b.Key("a"), []byte("bytes")))
	late.Store(true)
	check.Is(t, check.Err(b.Delete(t.Context(), b.Key("a"))), entity.ErrUnavailable, "deleting an object without a list of its versions")
	check.NoError(t, client.RemoveObject(t.Context(), cfg.Bucket, b.Key("a"), minio.RemoveObjectOptions{}))
	marked.Store(true)
	check.Is(t, check.Err(b.Delete(t.Context(), b.Key("a"))), entity.ErrUnavailable, "deleting a marked object without a list of its versions")
	late.Store(false)
	marked.Store(false)
	check.NoError(t, check.Err(b.Delete(t.Context(), b.Key("a"))))
	check.Len(t, versionsOf(t.Context(), client, cfg.Bucket), 0, "versions")
}

// A store that stops in the middle of a body does not hold the request for ever.
func TestBucket_ASilentStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	cfg, _ := made(t, minio.MakeBucketOptions{})
	ended := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 08:00:00 GMT")
		_, _ = io.WriteString(w, "12345")
		_ = http.NewResponseController(w).Flush()
		<-ended
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(ended) })
	cfg.Endpoint = silent.URL
	b := check.Must(open(cfg, 50*time.Millisecond))(t)
	check.Is(t, check.Err(b.Read(t.Context(), b.Key("a"), 0, 10)), entity.ErrUnavailable, "reading from a silent store")
}

func TestBucket_SaysUntilWhenAnObjectIsRetained(t *testing.T) {
	t.Parallel()
	cfg, client := made(t, minio.MakeBucketOptions{ObjectLocking: true})
	mode, days, unit := minio.Compliance, uint(3), minio.Days
	check.NoError(t, client.SetBucketObjectLockConfig(t.Context(), cfg.Bucket, &mode, &days, &unit))
	b := check.Must(Open(cfg))(t)
	check.NoError(t, b.Put(t.Context(), b.Key("a"), []byte("bytes")))
	until := check.Must(b.Delete(t.Context(), b.Key("a")))(t)
	check.True(t, until.After(time.Now().Add(71*time.Hour)) && until.Before(time.Now().Add(73*time.Hour)), "retained until %s, want three days", until)
	check.Same(t, string(check.Must(b.Read(t.Context(), b.Key("a"), 0, 10))(t)), "bytes", "the locked object")
}

func TestBucket_ErrorsHaveKinds(t *testing.T) {
	t.Parallel()
	cfg, _ := made(t, minio.MakeBucketOptions{})
	missing := cfg
	missing.Bucket = "b-" + uuid.NewString()
	check.Says(t, check.Must(Open(missing))(t).Check(t.Context()), "does not exist", "a missing bucket")

	check.NoError(t, os.WriteFile(cfg.SecretKeyFile, []byte("wrong"), 0o600))
	err := check.Must(Open(cfg))(t).Put(t.Context(), "a", nil)
	check.True(t, err != nil && !errors.Is(err, entity.ErrUnavailable), "got %v for a wrong secret, want an error that is not temporary", err)

	cfg.Endpoint = "http://127.0.0.1:1"
	check.Is(t, check.Must(Open(cfg))(t).Put(t.Context(), "a", nil), entity.ErrUnavailable, "a store that does not answer")
}

func TestConfig_Usable(t *testing.T) {
	t.Parallel()
	good := Config{Region: "eu-central-1", Bucket: "dlq-archive"}
	check.NoError(t, good.Usable())
	for want, change := range map[string]func(*Config){
		"s3.endpoint":        func(c *Config) { c.Endpoint = "s3.example.com" },
		"s3.region":          func(c *Config) { c.Region = "" },
		"s3.bucket":          func(c *Config) { c.Bucket = "A" },
		"s3.prefix":          func(c *Config) { c.Prefix = "dlq" },
		"s3.secret_key_file": func(c *Config) { c.AccessKeyFile = "f" },
		"s3.sse":             func(c *Config) { c.SSE = "kms:" },
	} {
		bad := good
		change(&bad)
		check.Says(t, bad.Usable(), want, "a wrong setting")
	}
}
