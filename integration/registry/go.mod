module github.com/dlq-manager/dlq-manager/integration/registry

go 1.26.0

require (
	github.com/bufbuild/protocompile v0.14.1
	github.com/jhump/protoreflect/v2 v2.0.0
	google.golang.org/protobuf v1.36.12
)

require golang.org/x/sync v0.22.0 // indirect
