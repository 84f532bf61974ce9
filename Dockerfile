# One image for web, worker, push and beat (docker-compose.yml, deploy/kubernetes.yaml). It brings no servers: those are
# DATABASE_URL and REDIS_URL. It runs as nobody, and writes to /data and /tmp alone.
FROM python:3.13-slim AS build

COPY requirements.lock .
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock

FROM python:3.13-slim

ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TOPICS_DATA=/data HOST=0.0.0.0 PORT=4000

# pg_dump, pg_restore and psql, for `topics backup` and `topics restore`. pg_dump refuses a server of a later version than its own,
# and Debian's is earlier than the server of docker-compose.yml. So they are of that version, from PostgreSQL's own packages.
ADD --chmod=0644 https://www.postgresql.org/media/keys/ACCC4CF8.asc /usr/share/keyrings/postgresql.asc
RUN . /etc/os-release \
 && echo "deb [signed-by=/usr/share/keyrings/postgresql.asc] https://apt.postgresql.org/pub/repos/apt $VERSION_CODENAME-pgdg main" \
    > /etc/apt/sources.list.d/postgresql.list \
 && apt-get update && apt-get install -y --no-install-recommends postgresql-client-18 && rm -rf /var/lib/apt/lists/*

COPY --from=build /venv /venv
WORKDIR /app
COPY . .
RUN python -m compileall -q . && install -d -m 0700 -o 65534 -g 65534 /data
USER 65534:65534
VOLUME /data
EXPOSE 4000

CMD ["python", "manage.py", "run", "web"]
