# A service that ranks with /models/model.safetensors: see docs/serving.md.
FROM python:3.13-slim AS build

WORKDIR /build
RUN python -m venv /opt/marginrank
ENV PATH=/opt/marginrank/bin:$PATH
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[serve]'

FROM python:3.13-slim

RUN useradd --system --no-create-home --shell /usr/sbin/nologin ranker
COPY --from=build /opt/marginrank /opt/marginrank
ENV PATH=/opt/marginrank/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER ranker
# To train in the container too, compile kernels here: see `marginrank warmup` in docs/places.md.
VOLUME /models
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)"]
ENTRYPOINT ["marginrank", "serve"]
CMD ["/models/model.safetensors", "--host", "0.0.0.0", "--port", "8000"]
