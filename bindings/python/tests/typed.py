"""What mypy is to accept and to infer; not run."""

from typing import Optional

from typing_extensions import assert_type

import cantle
from cantle import plyvel

db = cantle.open("store", memory_budget=1 << 20, layout="chunk")
assert_type(db, cantle.DB)
assert_type(db.get(b"key"), Optional[bytes])
assert_type(db.get(bytearray(b"key"), b""), bytes)
assert_type(db["UA", 5], bytes)
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
    batch.keyspace(db.keyspace("other", compression="lz4")).put(b"a", b"b")
assert_type(db.verify().ok, bool)
assert_type(cantle.repair("a", "b").pairs, int)

db.put("text", b"")  # type: ignore[arg-type]
db.put(b"key", None)  # type: ignore[arg-type]
db.keyspace("other", memory_budget=5)  # type: ignore[call-arg]

old = plyvel.DB("store", create_if_missing=True)
assert_type(old.raw_iterator().item(), tuple[bytes, bytes])
