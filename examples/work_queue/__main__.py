"""`make queue-demo`: two workers make thumbnails. One image fails once, and one is broken, so its job becomes a dead letter."""

import threading

from topics_client import Job, Retry, Topics, Worker

from examples.demo import say
from examples.serving import server

IMAGES = 12
FAILS_ONCE, BROKEN = 3, 7
QUEUE, DEAD = "images", "images.dead"


def main() -> None:
    with server("queue", 4340) as here:
        prepare(here.topics)
        workers = [worker(here.topics, name) for name in ("ada", "bob")]
        threads = [threading.Thread(target=each.run) for each in workers]
        for each in threads:
            each.start()
        left = here.topics.topic(DEAD).follow(cursor="report")
        letter = next(left)  # the broken image is the last to leave the queue
        while (jobs := here.topics.topic(QUEUE).info()["queue"])["ready"] + jobs["in_flight"] + jobs["delayed"]:
            if here.stopping.wait(0.1):
                break
        say(f"image {letter.data['image']} is a dead letter: {(letter.meta or {})['$dead_letter_error']}")
        left.close()
        for stopped in workers:
            stopped.stop()
        for each in threads:
            each.join()


def prepare(topics: Topics) -> None:
    """Creates the queue and its topic of dead letters, and gives the queue its jobs."""
    topics.topic(DEAD).configure()
    queue = topics.topic(QUEUE)
    queue.configure(type="queue", max_deliveries=3, dead_letter=DEAD)
    with queue.batch() as batch:
        for number in range(IMAGES):
            batch.append({"image": number}, tag=f"image:{number}")


def worker(topics: Topics, name: str) -> Worker[dict[str, int]]:
    """Returns a worker. A job is done if its function returns. If it raises, the job comes back."""
    made = topics.worker(QUEUE, node=name, concurrency=2)

    @made
    def make_thumbnail(job: Job[dict[str, int]]) -> None:
        image = job.data["image"]
        if image == BROKEN:
            raise Retry("no image", delay_ms=100)
        if image == FAILS_ONCE and job.deliveries == 1:
            raise Retry("the disk is busy", delay_ms=100)
        say(f"{name} made the thumbnail of image {image}")

    return made


if __name__ == "__main__":
    main()
