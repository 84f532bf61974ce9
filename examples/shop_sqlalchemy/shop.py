"""The order of examples/shop/ with SQLAlchemy. Its tables are made by Alembic (migrations/), in a database with topics.

`shop.py place MAIL CENTS` places an order, and `shop.py tally` counts the orders that have come since its last run. libpq's
variables name the database: PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD.
"""

import sys
from datetime import date

from sqlalchemy import Engine, FetchedValue, create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from topics_client.sql import emit

READ = text("SELECT seq, data, reason FROM topics.read('orders', :position, 100)")
COMMIT = text("SELECT topics.commit_cursor('orders', 'invoice-tally', :seq, :position)")


class Base(DeclarativeBase):
    pass


class Invoice(Base):
    __tablename__ = "invoice"
    id: Mapped[int] = mapped_column(primary_key=True)
    mail: Mapped[str]
    cents: Mapped[int]
    placed_on: Mapped[date] = mapped_column(server_default=FetchedValue())


class Total(Base):
    __tablename__ = "total"
    day: Mapped[date] = mapped_column(primary_key=True)
    orders: Mapped[int] = mapped_column(default=0)
    cents: Mapped[int] = mapped_column(default=0)


def place(engine: Engine, mail: str, cents: int) -> int:
    """Places an order. The row and its event are one commit. Returns the id."""
    with Session(engine) as session, session.begin():
        order = Invoice(mail=mail, cents=cents)
        session.add(order)
        session.flush()
        event = {"id": order.id, "day": order.placed_on.isoformat(), "cents": cents}
        emit(session, "orders", event, tag=f"invoice:{order.id}")
        return order.id


def count_next(engine: Engine) -> int:
    """Counts the next records of the topic, each exactly once, and returns how many rows it has read."""
    with Session(engine) as session, session.begin():
        position = session.scalar(text("SELECT topics.read_cursor('orders', 'invoice-tally')"))
        rows = session.execute(READ, {"position": position}).all()
        for order in [row.data for row in rows if row.reason is None]:
            day = date.fromisoformat(order["day"])
            total = session.get(Total, day) or Total(day=day, orders=0, cents=0)
            session.add(total)
            total.orders += 1
            total.cents += order["cents"]
        if rows:
            session.flush()
            session.execute(COMMIT, {"seq": rows[-1].seq, "position": position})
        return len(rows)


if __name__ == "__main__":
    engine = create_engine("postgresql+psycopg://")
    match sys.argv[1:]:
        case ["place", mail, cents]:
            print("placed order", place(engine, mail, int(cents)))
        case ["tally"]:
            while count_next(engine):
                pass
            with Session(engine) as session:
                for total in session.query(Total).order_by(Total.day):
                    print(total.day, total.orders, "orders", total.cents, "cents")
        case _:
            sys.exit(__doc__)
