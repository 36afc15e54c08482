# The controller's image: one static binary, no shell, no root.
#
#   docker build --tag NAME .                                                      for this machine
#   docker buildx build --platform linux/amd64,linux/arm64 --push --tag NAME .     for both, compiled on this machine
#   docker build --target prebuilt --build-arg RUNTIME=BASE --file Dockerfile DIR  of a binary that is in DIR/root
#
# The last one also works with the classic builder, which knows neither mounts nor platforms and runs every stage up to
# the one it is asked for: what it needs stands first.

# Certificates of public authorities, /etc/passwd with the user 65532, and nothing else.
ARG RUNTIME=gcr.io/distroless/static:nonroot
# What compiles. Both may be names of a mirror.
ARG TOOLCHAIN=rust:1.95-alpine

FROM ${RUNTIME} AS runtime
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/karpenter"]
# What the reference's image does without arguments, so that its chart runs this image too.
CMD ["controller"]

# A binary from elsewhere as `root/karpenter`, and below `root` whatever else it takes to run, at its place.
FROM runtime AS prebuilt
COPY root/ /

# On the platform of the builder, whatever the image is for: emulated, the AWS SDK would compile for hours.
FROM --platform=$BUILDPLATFORM ${TOOLCHAIN} AS build
# clang, because `ring` and mimalloc have C and assembly: unlike gcc it compiles for every platform.
RUN apk add --no-cache clang musl-dev
ARG TARGETARCH
# Headers of the C library differ between platforms, and mimalloc includes some: another platform needs its own.
RUN case "$TARGETARCH" in \
        amd64) machine=x86_64 ;; \
        arm64) machine=aarch64 ;; \
        *) echo "no Rust target is known for TARGETARCH=$TARGETARCH" >&2; exit 1 ;; \
    esac \
    && echo "$machine-unknown-linux-musl" > /target \
    && rustup target add "$(cat /target)" \
    && if [ "$(apk --print-arch)" != "$machine" ]; then \
        apk add --root /headers --initdb --arch "$machine" --no-cache --no-scripts \
            --keys-dir "/usr/share/apk/keys/$machine" --repositories-file /etc/apk/repositories musl-dev; \
    fi
WORKDIR /source
COPY . .
ARG KARPENTER_COMMIT=""
ENV KARPENTER_COMMIT=$KARPENTER_COMMIT
# For another platform the C library is the one that Rust has, and so is the linker. For the builder's own they stay as
# they are: the same variables would decide how build scripts and macros are linked.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,id=target-$TARGETARCH \
    target=$(cat /target) && name=$(echo "$target" | tr - _) \
    && if [ "$(apk --print-arch)" != "${target%%-*}" ]; then \
        export "CC_$name=clang" "CFLAGS_$name=--sysroot=/headers"; \
        export "CARGO_TARGET_$(echo "$name" | tr a-z A-Z)_LINKER=rust-lld"; \
    fi && \
    cargo build --release --locked --package karpenter-cli --no-default-features --target "$target" \
    && cp "target/$target/release/karpenter" /karpenter

FROM runtime
COPY --from=build /karpenter /karpenter
