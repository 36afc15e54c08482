# The controller's image: one static binary, no shell, no root.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /source
COPY . .
ARG KARPENTER_COMMIT=""
ENV KARPENTER_COMMIT=$KARPENTER_COMMIT
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --release --locked --package karpenter-cli --no-default-features \
    && cp target/release/karpenter /karpenter

# Certificates of public authorities, /etc/passwd with the user 65532, and nothing else.
FROM gcr.io/distroless/static:nonroot
COPY --from=build /karpenter /karpenter
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/karpenter"]
# What the reference's image does without arguments, so that its chart runs this image too.
CMD ["controller"]
