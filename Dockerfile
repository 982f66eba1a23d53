# `toolfold serve` as a user without rights, on a root that it cannot write to.
# What the container must be started with, and why, is in docs/deploy.md.

FROM debian:trixie-slim AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/toolfold
WORKDIR /build
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY requirements/all.txt requirements/
COPY src src
# The pins say which versions, the extras say which packages.
RUN /opt/toolfold/bin/pip install --no-cache-dir --disable-pip-version-check \
      --constraint requirements/all.txt '.[data,http,mcp,otel,redis,sealed]'

FROM debian:trixie-slim
# tini: the first process of a container inherits orphans of bridged servers, and somebody must reap them.
# bc and after: what bash programs need and Debian does not always have.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 tini bc file gawk jq unzip \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 toolfold \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /state --shell /usr/sbin/nologin toolfold \
 && install --directory --owner toolfold --group toolfold --mode 0700 /state
COPY --from=build /opt/toolfold /opt/toolfold
COPY deploy/toolfold.yaml /etc/toolfold/toolfold.yaml
ENV PATH=/opt/toolfold/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/tmp \
    XDG_STATE_HOME=/state
# As numbers: Kubernetes cannot tell from a name that it is not root.
USER 10001:10001
WORKDIR /state
VOLUME /state
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["tini", "--", "toolfold"]
CMD ["serve", "--config", "/etc/toolfold/toolfold.yaml"]
