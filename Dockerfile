# One image for the three programs and the migrations. What it runs is chosen by
# the entrypoint; without a choice it is the API.
#
#   docker build --build-arg VERSION=0.1.0 -t harbor.internal.example.com/k1s0-system/dlq-manager:0.1.0 .
#   docker run --read-only --entrypoint /usr/local/bin/dlq-manager-ingester IMAGE --config FILE
#
# The same Go makes the same bytes, whoever builds (`make reproducible`). For an image
# that is, name the images that it begins with by their digests, and give its files one time:
#
#   SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) docker buildx build --build-arg VERSION=0.1.0 \
#     --build-arg NODE=node:24@sha256:... --build-arg GO=golang:1.26@sha256:... --build-arg BASE=...@sha256:... \
#     --output type=image,name=IMAGE,rewrite-timestamp=true .
ARG NODE=node:24
ARG GO=golang:1.26
ARG BASE=gcr.io/distroless/static-debian12:nonroot

# What the console's pages load.
FROM --platform=$BUILDPLATFORM $NODE AS assets

WORKDIR /src/pkg/console/web
COPY pkg/console/web ./
RUN npm ci --ignore-scripts --omit=dev --no-audit --no-fund && node vendor.mjs

FROM --platform=$BUILDPLATFORM $GO AS build

WORKDIR /src

# The modules first: they change less often than the code.
COPY go.mod go.sum ./
COPY clients/go/go.mod clients/go/go.sum clients/go/
RUN go mod download

COPY . .
COPY --from=assets /src/pkg/console/static/vendor pkg/console/static/vendor

ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
ENV CGO_ENABLED=0
RUN set -e; \
    for program in api ingester archiver; do \
        GOOS="$TARGETOS" GOARCH="$TARGETARCH" go build -trimpath -buildvcs=false \
            -ldflags "-s -w -X github.com/dlq-manager/dlq-manager/pkg/telemetry.version=$VERSION" \
            -o "/out/dlq-manager-$program" "./cmd/$program"; \
    done

# No shell and no package manager; certificates, time zones and the user
# nonroot (65532) are there. Nothing is written outside /tmp.
FROM $BASE

ARG VERSION=dev
LABEL org.opencontainers.image.title="dlq-manager" \
      org.opencontainers.image.description="A manager for Kafka dead letters" \
      org.opencontainers.image.version="$VERSION"

COPY --from=build /out/ /usr/local/bin/

# configs/config.yaml, where the programs look by default, is mounted below it.
WORKDIR /etc/dlq-manager

# A number, because Kubernetes cannot tell from a name that it is not root.
USER 65532:65532

EXPOSE 8080

ENTRYPOINT ["/usr/local/bin/dlq-manager-api"]
