# The installed package, without the checkout: `docker build -t mrag-rl .`, for NVIDIA GPUs with
#   --build-arg TORCH_INDEX=https://pypi.org/simple --build-arg EXTRAS=train,offline,export,server,ui,gpu
# docs/containers.md has commands for both.
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY . .
RUN python3 -m venv /build && /build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${BASE}
# PyTorch's own index has builds without CUDA; those of PyPI come with CUDA and need only the host's driver.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=train,offline,export,server,ui
COPY constraints.txt /tmp/
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python3 -m venv /opt/mrag-rl && cd /tmp \
    && /opt/mrag-rl/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" --extra-index-url https://pypi.org/simple \
        "$(grep '^torch==' constraints.txt)" \
    && /opt/mrag-rl/bin/pip install --no-cache-dir -c constraints.txt "$(echo /wheels/mrag_rl-*.whl)[$EXTRAS]" \
    && rm constraints.txt \
    && useradd --create-home --uid 1000 mrag && install -d -o mrag /work /home/mrag/.cache
ENV PATH=/opt/mrag-rl/bin:$PATH
USER mrag
WORKDIR /work
ENTRYPOINT ["mrag-rl"]
CMD ["--help"]
