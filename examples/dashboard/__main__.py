"""`make dashboard-demo`: a page shows the sales of a shop as they happen, through each cut and restart of the server."""

import random
from pathlib import Path

from examples.demo import say
from examples.serving import page, server

PRODUCTS = {"tea": 450, "coffee": 690, "cocoa": 520, "mate": 380}  # prices in cents
PAUSE_SECONDS = 0.5


def main() -> None:
    with server("dashboard", 4300) as here, page(here, Path(__file__).parent / "index.html") as address:
        sales = here.topics.topic("dashboard.sales")
        sales.configure(cap_records=100_000)
        say(
            f"The dashboard is at {address}, its records at {here.url}/v0/topics/dashboard.sales/records. Ctrl-C ends it."
        )
        while not here.stopping.wait(PAUSE_SECONDS):
            product = random.choice(list(PRODUCTS))
            count = random.randint(1, 3)
            sales.append({"product": product, "cents": count * PRODUCTS[product]}, tag=product)


if __name__ == "__main__":
    main()
