package bucket

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Config names a bucket of an S3-compatible store, and how to sign in.
type Config struct {
	Endpoint      string `mapstructure:"endpoint"` // URL; empty: Amazon S3 in the region
	Region        string `mapstructure:"region"`
	Bucket        string `mapstructure:"bucket"`
	Prefix        string `mapstructure:"prefix"`          // before the keys of all objects, such as "dlq/"
	PathStyle     bool   `mapstructure:"path_style"`      // the bucket is a part of the path, not of the host name
	AccessKeyFile string `mapstructure:"access_key_file"` // neither file is set: the credentials of the platform are used
	SecretKeyFile string `mapstructure:"secret_key_file"`
	SSE           string `mapstructure:"sse"` // encryption by the store: empty, s3, kms or kms:KEY
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	keyPrefix  = regexp.MustCompile(`^([A-Za-z0-9_.=-]+/)*$`)
)

// Usable reports every problem at once. It is not called Validate, because a bucket that is not used may be incomplete.
func (c Config) Usable() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		wrong(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil,
			"s3.endpoint must be a URL such as https://s3.example.com, not %q", c.Endpoint)
	}
	wrong(c.Region == "" && c.Endpoint == "", "s3.region is empty, and so is s3.endpoint")
	wrong(!bucketName.MatchString(c.Bucket), "s3.bucket must be the name of a bucket, not %q", c.Bucket)
	wrong(!keyPrefix.MatchString(c.Prefix), `s3.prefix must be empty or end with a slash, as in "dlq/", not %q`, c.Prefix)
	wrong((c.AccessKeyFile == "") != (c.SecretKeyFile == ""), "s3.access_key_file and s3.secret_key_file must both be set, or neither")
	mode, key, keyed := strings.Cut(c.SSE, ":")
	wrong(c.SSE != "" && c.SSE != "s3" && (mode != "kms" || keyed && key == ""), "s3.sse must be empty, s3, kms or kms:KEY, not %q", c.SSE)
	return errors.Join(errs...)
}
