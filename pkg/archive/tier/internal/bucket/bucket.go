// Package bucket stores objects in a bucket of an S3-compatible store.
package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// maxTries is how often a request is sent at most. It is sent again when the store does not answer, or answers with an
// error that may be temporary, such as a 5xx.
const maxTries = 3

// Bucket is a bucket, or the part of it below a prefix. It is safe for concurrent use.
type Bucket struct {
	core   minio.Core
	name   string
	prefix string
	sse    encrypt.ServerSide
}

// ErrGone reports that an object does not exist.
var ErrGone = errors.New("the object does not exist")

// Open returns the bucket of a valid configuration. It sends no request.
func Open(cfg Config) (*Bucket, error) { return open(cfg, stallLimit) }

func open(cfg Config, stall time.Duration) (*Bucket, error) {
	host, secure := "s3."+cfg.Region+".amazonaws.com", true
	if cfg.Endpoint != "" {
		u, err := url.Parse(cfg.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("s3.endpoint: %w", err)
		}
		host, secure = u.Host, u.Scheme == "https"
	}
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	t, err := transport(secure, stall)
	if err != nil {
		return nil, err
	}
	core, err := minio.NewCore(host, &minio.Options{
		Creds: credentialsOf(cfg), Secure: secure, Transport: t, Region: cfg.Region, BucketLookup: lookup, MaxRetries: maxTries,
	})
	if err != nil {
		return nil, fmt.Errorf("open the bucket: %w", err)
	}
	b := &Bucket{core: *core, name: cfg.Bucket, prefix: cfg.Prefix}
	switch mode, key, _ := strings.Cut(cfg.SSE, ":"); mode {
	case "s3":
		b.sse = encrypt.NewSSE()
	case "kms":
		b.sse, err = encrypt.NewSSEKMS(key, nil)
	}
	return b, err
}

// credentialsOf returns the credentials in the files, or those of the platform: variables of the environment, a shared
// file, a service account of Kubernetes, a task of a container service, or the machine.
func credentialsOf(cfg Config) *credentials.Credentials {
	if cfg.AccessKeyFile != "" {
		return credentials.New(&fileCredentials{accessKey: cfg.AccessKeyFile, secretKey: cfg.SecretKeyFile})
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})
}

// fileLife is the time after which the files are read again, because the keys may be replaced while the program runs.
const fileLife = time.Minute

// fileCredentials reads keys from files.
type fileCredentials struct {
	credentials.Expiry
	accessKey, secretKey string
}

// Retrieve implements credentials.Provider.
func (f *fileCredentials) Retrieve() (credentials.Value, error) {
	access, err := secret.FromFileTrimmed(f.accessKey)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("read s3.access_key_file: %w", err)
	}
	key, err := secret.FromFileTrimmed(f.secretKey)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("read s3.secret_key_file: %w", err)
	}
	f.SetExpiration(time.Now().Add(fileLife), 0)
	return credentials.Value{
		AccessKeyID: access.Reveal(), SecretAccessKey: key.Reveal(), SignerType: credentials.SignatureV4,
	}, nil
}

// RetrieveWithCredContext implements credentials.Provider.
func (f *fileCredentials) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.Retrieve()
}

// Check returns nil when the bucket exists and the credentials may read it.
func (b *Bucket) Check(ctx context.Context) error {
	ok, err := b.core.BucketExists(ctx, b.name)
	if err == nil && !ok {
		return fmt.Errorf("bucket %s does not exist", b.name)
	}
	return translate(err, "find bucket", b.name)
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// Key returns the key of an object below the prefix.
func (b *Bucket) Key(path string) string { return b.prefix + path }

// Put stores an object as a whole.
func (b *Bucket) Put(ctx context.Context, key string, content []byte) error {
	_, err := b.core.Client.PutObject(ctx, b.name, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
		ContentType: "application/vnd.apache.parquet", ServerSideEncryption: b.sse, DisableMultipart: true, SendContentMd5: true,
	})
	return translate(err, "write object", key)
}

// Read returns length bytes of an object from offset on, or fewer at its end.
func (b *Bucket) Read(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	var opts minio.GetObjectOptions
	if err := opts.SetRange(offset, offset+length-1); err != nil {
		return nil, fmt.Errorf("read object %s: %w", key, err)
	}
	body, _, _, err := b.core.GetObject(ctx, b.name, key, opts)
	if err != nil {
		return nil, translate(err, "read object", key)
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(io.LimitReader(body, length))
	return content, translate(err, "read object", key)
}

// Delete deletes all versions of an object, and the marks of its deletion. When Object Lock forbids it, until is the
// time at which the last version may be deleted; versions that are not locked are deleted all the same. An object that
// does not exist is no error. When the list of versions lacks some, because it is late, Delete returns an error, so that
// the caller tries again.
func (b *Bucket) Delete(ctx context.Context, key string) (until time.Time, err error) {
	versioning, err := b.core.GetBucketVersioning(ctx, b.name)
	if err != nil && !unsupported(err) {
		return time.Time{}, translate(err, "delete object", key)
	}
	if versioning.Status == "" {
		err := b.core.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
		return time.Time{}, translate(err, "delete object", key)
	}
	var versions []minio.ObjectInfo
	for v := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: key, WithVersions: true, Recursive: true}) {
		if v.Err != nil {
			return time.Time{}, translate(v.Err, "find versions of object", key)
		}
		if v.Key == key {
			versions = append(versions, v)
		}
	}
	var errs []error
	for _, v := range versions {
		locked, err := b.deleteVersion(ctx, &v)
		errs = append(errs, err)
		if locked.After(until) {
			until = locked
		}
	}
	if err := errors.Join(errs...); err != nil || !until.IsZero() {
		return until, err
	}
	return time.Time{}, b.deleted(ctx, key)
}

// deleted returns an error when an object, or the mark of its deletion, still exists.
func (b *Bucket) deleted(ctx context.Context, key string) error {
	found, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err == nil || found.IsDeleteMarker {
		return fmt.Errorf("delete object %s: %w: it still has versions that the store did not list", key, entity.ErrUnavailable)
	}
	if err = translate(err, "delete object", key); errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// forever is the time until which an object with a legal hold is kept, because no date is set.
var forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// deleteVersion deletes one version, and returns until when Object Lock forbids it.
func (b *Bucket) deleteVersion(ctx context.Context, v *minio.ObjectInfo) (until time.Time, err error) {
	refused := b.core.RemoveObject(ctx, b.name, v.Key, minio.RemoveObjectOptions{VersionID: v.VersionID})
	if refused == nil {
		return time.Time{}, nil
	}
	if until = b.lockedUntil(ctx, v); until.After(time.Now()) {
		return until, nil
	}
	return time.Time{}, translate(refused, "delete object", v.Key)
}

// lockedUntil returns until when Object Lock forbids to delete a version: by a legal hold, by its own retention, or by
// the retention of the bucket, which some stores apply without giving each object its own.
func (b *Bucket) lockedUntil(ctx context.Context, v *minio.ObjectInfo) time.Time {
	hold, err := b.core.GetObjectLegalHold(ctx, b.name, v.Key, minio.GetObjectLegalHoldOptions{VersionID: v.VersionID})
	if err == nil && hold != nil && *hold == minio.LegalHoldEnabled {
		return forever
	}
	_, own, err := b.core.GetObjectRetention(ctx, b.name, v.Key, v.VersionID)
	if err == nil && own != nil {
		return own.UTC()
	}
	_, mode, length, unit, err := b.core.GetObjectLockConfig(ctx, b.name)
	if err != nil || mode == nil || length == nil || unit == nil {
		return time.Time{}
	}
	if *unit == minio.Years {
		return v.LastModified.AddDate(int(*length), 0, 0).UTC() //nolint:gosec // at most 100 years
	}
	return v.LastModified.AddDate(0, 0, int(*length)).UTC() //nolint:gosec // at most 100 years
}

func unsupported(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == "NotImplemented" || code == minio.MethodNotAllowed
}

// translate returns the error with its kind: ErrGone for an object that does not exist, entity.ErrUnavailable when the
// store does not answer or refuses to work now.
func translate(err error, doing, key string) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s %s: %w", doing, key, ErrGone)
	case errors.Is(err, context.Canceled), answer.StatusCode >= http.StatusBadRequest && answer.StatusCode < http.StatusInternalServerError &&
		answer.StatusCode != http.StatusTooManyRequests:
		return fmt.Errorf("%s %s: %w", doing, key, err)
	default:
		return fmt.Errorf("%s %s: %w: %w", doing, key, entity.ErrUnavailable, err)
	}
}
