# KBForge without extras, for files in the current folder:
#
#   docker build -t kbforge .
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" kbforge cluster people.jsonl -o kb.jsonl
#
# EXTRAS=[parquet] adds extras. With EXTRAS=[serve] it serves a store to this machine:
#
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" -p 127.0.0.1:8000:8000 \
#       -e KBFORGE_TOKEN kbforge serve kb.sqlite --host 0.0.0.0
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
ARG EXTRAS=
WORKDIR /src
COPY . .
# zig, which pip fetches for the build, compiles the kernel
RUN python3 -m venv /opt/kbforge \
    && KBFORGE_KERNEL=portable /opt/kbforge/bin/pip install --no-cache-dir -c constraints.txt ".${EXTRAS}" \
    && /opt/kbforge/bin/kbforge --version

FROM ${PYTHON}
COPY --from=build /opt/kbforge /opt/kbforge
ENV PATH="/opt/kbforge/bin:${PATH}"
RUN useradd --create-home --uid 1000 kbforge
USER 1000
WORKDIR /data
ENTRYPOINT ["kbforge"]
CMD ["--help"]
