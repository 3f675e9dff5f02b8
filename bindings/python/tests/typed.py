"""Types that mypy must accept, infer or refuse. A test checks this file with mypy and does not run it."""

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Optional
from uuid import UUID

from typing_extensions import assert_type

import cantle
from cantle import plyvel
from cantle.types import Durability, StoreOptions

db = cantle.open("store", memory_budget=1 << 20, layout="chunk")
assert_type(db, cantle.DB)
assert_type(db.get(b"key"), Optional[bytes])
assert_type(db.get(bytearray(b"key"), b""), bytes)
assert_type(db["UA", 5], bytes)
assert_type(db.get_many([b"key", ("UA", 5)]), list[Optional[bytes]])
assert_type(db.get_many((bytearray(b"key") for _ in range(5)), errors="return"), "list[bytes | cantle.Error | None]")
db["UA", 5, ("nested", None)] = memoryview(b"")
for key, value in db.range(b"a", ("b",), reverse=True, limit=5):
    assert_type(key, bytes)
    assert_type(value, bytes)
for key in db.range().only_keys():
    assert_type(key, bytes)
assert_type(db.transact(lambda tx: 5), int)
with db.snapshot() as snapshot, db.write_batch() as batch, db.transaction() as tx:
    assert_type(snapshot[b"a"], bytes)
    assert_type(tx.get(b"a", 5), "bytes | int")
    assert_type(tx.get_many({b"a": 5}), list[Optional[bytes]])
    batch.keyspace(db.keyspace("other", compression="lz4")).put(b"a", b"b")
assert_type(db.verify().ok, bool)
assert_type(cantle.repair("a", "b").pairs, int)

db["UA", datetime.now(timezone.utc), date.today(), UUID(int=5), 2**100, cantle.Float32(0.5)] = b""
assert_type(cantle.decode_key(b"key", (str, datetime, (int, object))), tuple[Any, ...])
cantle.encode_key((1j,))  # type: ignore[arg-type]
cantle.decode_key(b"key", (5,))  # type: ignore[arg-type]

flights = db.typed("flights", (str, datetime, Optional[int]), "json")
assert_type(flights, cantle.TypedKeyspace)
flights["UA", datetime.now(timezone.utc), None] = {"dest": "EWR"}
assert_type(flights.pop_first(), Optional[tuple[Any, Any]])
assert_type(flights.get_many([("UA", datetime.now(timezone.utc), None)]), list[Any])
assert_type(flights.insert_if_absent("UA", 1), bool)
with db.snapshot() as snapshot, db.write_batch() as batch, db.transaction() as tx:
    assert_type(snapshot.typed(flights).first(), Optional[tuple[Any, Any]])
    assert_type(tx.typed(flights).compare_and_swap("UA", None, 1), bool)
    batch.typed(flights).put("UA", 1)
    snapshot.typed(flights).put("UA", 1)  # type: ignore[attr-defined]
    tx.typed(db)  # type: ignore[arg-type]
assert_type(flights.keyspace.compare_and_swap_metadata(b"", b"a"), bool)

db.put("text", b"")  # type: ignore[arg-type]
db.get_many(["text"])  # type: ignore[list-item]
db.get_many(b"key")  # type: ignore[arg-type]
db.get_many([b"key"], errors="ignore")  # type: ignore[call-overload]
db.put(b"key", None)  # type: ignore[arg-type]
db.keyspace("other", memory_budget=5)  # type: ignore[call-arg]

old = plyvel.DB("store", create_if_missing=True)
assert_type(old.raw_iterator().item(), tuple[bytes, bytes])
assert_type(old.get(b"key"), Optional[bytes])
assert_type(old.get(b"key", b""), bytes)
assert_type(old.snapshot().get(b"key", 5), "bytes | int")
assert_type(old.prefixed_db(b"p").get(b"key"), Optional[bytes])
for entry in old:
    assert_type(entry, tuple[bytes, bytes])
assert_type(next(old.iterator(prefix=b"a", reverse=True)), tuple[bytes, bytes])
assert_type(next(old.iterator(include_value=False)), bytes)
assert_type(next(old.snapshot().iterator(include_key=False, start=b"a")), bytes)
assert_type(next(old.prefixed_db(b"p").iterator(include_key=False, include_value=False)), None)
assert_type(old.iterator(include_value=False).prev(), bytes)
names: plyvel.Iterator[bytes] = old.iterator(include_value=False)
old.put(b"key", "text")  # type: ignore[arg-type]

# Options and durabilities are literals; options of a store are a typed dict.
db.put(b"key", b"", durability="sync")
db.put(b"key", b"", durability="synk")  # type: ignore[arg-type]
db.transaction(durability="synk")  # type: ignore[arg-type]
db.keyspace("other", compression="gzip")  # type: ignore[arg-type]
cantle.open("store", compression="gzip")  # type: ignore[arg-type]
cantle.open("store", durability=True)  # type: ignore[arg-type]
cantle.open("store", layout="chunk:munks=false")
cantle.repair("a", "b", compression="gzip")  # type: ignore[arg-type]
cantle.import_leveldb("a", "b", durable="sync")  # type: ignore[call-arg]
small: StoreOptions = {"memory_budget": 1 << 20, "durability": "sync"}
cantle.open("store", **small)


def write(db: cantle.DB, durability: Durability) -> None:
    with db.write_batch(durability=durability) as batch:
        batch.put(b"key", b"")


# Paths are str, bytes or path-like.
cantle.open(b"store")
cantle.destroy(Path("store"))
cantle.repair(b"a", Path("b"))
cantle.import_leveldb(Path("a"), b"b")
db.backup(b"copy")
cantle.open(5)  # type: ignore[arg-type]
db.backup(5)  # type: ignore[arg-type]

assert_type(cantle.Resources(1 << 20, 2).background_threads, int)
