# One image for web, worker, push and beat (docker-compose.yml, deploy/kubernetes.yaml). It brings no servers: those are
# DATABASE_URL and REDIS_URL. It runs as nobody, and writes to /data and /tmp alone.
FROM python:3.13-slim AS build

COPY requirements.lock .
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock

FROM python:3.13-slim

ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TOPICS_DATA=/data HOST=0.0.0.0 PORT=4000

COPY --from=build /venv /venv
WORKDIR /app
COPY . .
RUN python -m compileall -q . && install -d -m 0700 -o 65534 -g 65534 /data
USER 65534:65534
VOLUME /data
EXPOSE 4000

CMD ["python", "manage.py", "run", "web"]
