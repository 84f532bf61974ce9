from django.core.management.base import BaseCommand
from topics_client import Topics


class Command(BaseCommand):
    help = "Creates the topics of the shop, over HTTP. TOPICS_URL is the address of the server."

    def handle(self, **options: object) -> None:
        with Topics() as topics:
            topics.topic("orders").configure(durability="fsync")
            topics.topic("mails").configure(type="queue", durability="fsync")
