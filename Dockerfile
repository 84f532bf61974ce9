# One image for web, worker and beat (docker-compose.yml); it brings no servers, those are DATABASE_URL and REDIS_URL.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TOPICS_DATA=/data HOST=0.0.0.0 PORT=4000

WORKDIR /app
COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN python -m compileall -q . && useradd --system --no-create-home topics && install -d -o topics -g topics /data
USER topics
VOLUME /data
EXPOSE 4000

CMD ["python", "manage.py", "run", "web"]
