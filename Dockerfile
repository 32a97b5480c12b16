# The page's server, or a worker of the queue, from Debian's packages alone. Debian's Rust is too old for the source,
# so the program is built first, on Debian 12 or a system with an older C library:
#
#     cargo build --release --features queue
#     docker build -t batch-first .
#     docker run -p 8080:8080 -v games:/data batch-first
#     docker run batch-first worker --queue nats://host:4222
#
# This file was not tried: no Docker was at hand where it was written.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home engine && mkdir /data && chown engine /data
COPY target/release/batch-first /usr/local/bin/batch-first
USER engine
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["batch-first"]
# Others than this machine reach it, so visitors need the token in the printed link.
CMD ["serve", "--listen", "0.0.0.0:8080", "--games", "/data/games.sqlite"]
