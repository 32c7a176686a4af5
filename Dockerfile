# rlcore with what a first training needs. The working directory of the container is /work:
#   docker build -t rlcore .
#   docker run --rm --user "$(id -u)" -v "$PWD:/work" rlcore run examples/cartpole.yaml
# An index with a CPU build of PyTorch saves several GB: --build-arg PIP_EXTRA_INDEX_URL=ADDRESS
FROM python:3.11-slim AS build
ARG PIP_EXTRA_INDEX_URL=""
COPY . /source
RUN python -m venv /opt/rlcore && /opt/rlcore/bin/pip install --no-cache-dir -c /source/constraints.txt /source

FROM python:3.11-slim
COPY --from=build /opt/rlcore /opt/rlcore
ENV PATH=/opt/rlcore/bin:$PATH \
    HOME=/tmp
RUN useradd --uid 1000 --create-home --home-dir /work rlcore
USER 1000
WORKDIR /work
ENTRYPOINT ["rlcore"]
CMD ["--help"]
