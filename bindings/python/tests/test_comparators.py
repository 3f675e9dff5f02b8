"""Orders of keys that are functions of Python."""

import gc
import threading

import pytest

import cantle


def backwards(a, b):
    return (a < b) - (a > b)


def by_number(a, b):
    return int(a) - int(b)


def open_with(path, name="order", function=backwards, **options):
    return cantle.open(path, comparators={name: function}, comparator=name, **options)


def test_keys_are_in_the_order_of_the_function(tmp_path):
    with open_with(tmp_path / "store", function=by_number) as db:
        for n in (10, 9, 100, -1):
            db[b"%d" % n] = b""
        assert list(db) == [b"-1", b"9", b"10", b"100"]
        assert list(db.range(b"9", b"100").only_keys()) == [b"9", b"10"]
        assert list(db.range(reverse=True, limit=1).only_keys()) == [b"100"]
        assert list(db.prefix(b"1").only_keys()) == [b"10", b"100"]
        # Equal is the same key.
        db[b"009"] = b"other"
        assert db[b"9"] == b"other"
        assert len(list(db)) == 4
        db.compact_range()
        assert db.comparator == "order"
    with cantle.open(tmp_path / "store", comparators={"order": by_number}) as db:
        assert list(db) == [b"-1", b"009", b"10", b"100"] or list(db) == [b"-1", b"9", b"10", b"100"]
        with db.transaction() as tx:
            tx[b"50"] = b""
            assert list(tx.range(b"10").only_keys()) == [b"10", b"50", b"100"]
        with pytest.raises(cantle.InvalidArgumentError, match="prefix is bytes"):
            db.prefix(("a",))


def test_the_name_is_checked_at_each_opening(tmp_path):
    open_with(tmp_path / "store").close()
    with pytest.raises(cantle.OptionMismatchError) as raised:
        open_with(tmp_path / "store", name="other")
    assert (raised.value.keyspace, raised.value.stored) == ("default", "order")
    assert isinstance(raised.value, ValueError)
    with pytest.raises(cantle.OptionMismatchError):
        cantle.open(tmp_path / "store")
    with open_with(tmp_path / "store") as db:
        with pytest.raises(ValueError, match="no comparator 'other'|no comparator \"other\""):
            db.keyspace("x", comparator="other")
        assert db.keyspace("x").comparator == "cantle.bytewise"
        assert db.keyspace("y", comparator="order").comparator == "order"
        db.keyspace("x")["a", 1] = b""
        assert list(db.keyspace("x").prefix(("a",)).tuples().only_keys()) == [("a", 1)]


def test_what_the_function_raises_is_raised(tmp_path):
    with open_with(tmp_path / "store", function=by_number) as db:
        db[b"1"] = b""
        for call in (
            lambda: db.put(b"one", b""),
            lambda: db.get(b"one"),
            lambda: db.delete(b"one"),
            lambda: b"one" in db,
            lambda: db.write_batch().put(b"one", b""),
            lambda: db.transaction().put(b"one", b""),
            lambda: list(db.range(b"one")),
        ):
            with pytest.raises(ValueError, match="invalid literal"):
                call()
        assert list(db) == [b"1"]


def test_an_order_that_is_none_is_refused(tmp_path):
    with open_with(tmp_path / "store", function=lambda a, b: 1) as db, pytest.raises(cantle.InvalidArgumentError, match="another than itself"):
        db[b"1"] = b""
    with open_with(tmp_path / "other", function=lambda a, b: "less") as db, pytest.raises(TypeError):
        db[b"1"] = b""


def test_a_function_that_fails_later_makes_the_store_read_only(tmp_path):
    fails = False

    def order(a, b):
        if fails and a != b:
            raise RuntimeError("later")
        return (a > b) - (a < b)

    db = open_with(tmp_path / "store", function=order)
    db[b"a"] = db[b"b"] = db[b"c"] = b""
    fails = True
    with pytest.raises(RuntimeError, match="later"):
        db.get(b"b")
    fails = False
    for call in (lambda: db.get(b"b"), lambda: list(db), lambda: db.put(b"d", b""), db.compact_range):
        with pytest.raises(cantle.ReadOnlyError, match="order.*RuntimeError: later.*reopen"):
            call()
    with pytest.raises(cantle.ReadOnlyError):
        db.close()
    with open_with(tmp_path / "store", function=order) as db:
        assert list(db) == [b"a", b"b", b"c"]
        db[b"d"] = b""


NEVER = float("inf")


class Failing:
    """The order backwards, which raises once, or from then on, in the comparison with that number."""

    def __init__(self, error, always=False, only=None):
        self.left, self.error, self.always, self.raised = NEVER, error, always, 0
        self.only = only

    def __call__(self, a, b):
        if a != b and self.only in (None, threading.current_thread()):
            self.left -= 1
            if self.left < 0:
                if not self.always:
                    self.left = NEVER
                self.raised += 1
                raise self.error("in a comparison")
        return backwards(a, b)


# Two chunks.
PAIRS = 600


def key_of(i):
    return b"%05d" % (i * 7919 % PAIRS)


def put_again(db):
    db[key_of(300)] = b"v" * 200


def put_all_again(db):
    with db.write_batch() as batch:
        for i in range(PAIRS):
            batch[key_of(i)] = b"v" * 200


def work_in_the_background(db):
    for _ in range(4):
        for i in range(PAIRS):
            db[key_of(i)] = b"v" * 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("work", [put_again, put_all_again, cantle.Keyspace.compact_range, work_in_the_background])
def test_no_comparison_that_raises_loses_a_pair(tmp_path, work, error, always):
    raised = 0
    for number, left in enumerate([0, 1, 5, 400, 1000]):
        path, order = tmp_path / str(number), Failing(error, always)
        db = open_with(path, function=order, layout="chunk:chunk_bytes=64KiB,log_bytes=16KiB,munks=false")
        for i in range(PAIRS):
            db[key_of(i)] = b"v" * 200
        order.left = left
        try:
            work(db)
        except (error, cantle.ReadOnlyError):
            pass
        order.left = NEVER
        raised += order.raised > 0
        try:
            db.close()
        except cantle.ReadOnlyError:
            # Only an order that never answered has failed.
            assert always and order.raised
        del db
        with open_with(path, function=Failing(error)) as db:
            assert list(db) == [b"%05d" % i for i in reversed(range(PAIRS))], left
            assert set(db.values()) == {b"v" * 200}
            assert db.verify().ok
    assert raised


def test_a_signal_is_raised_after_what_it_met(tmp_path):
    # As a signal, which arrives in the main thread.
    order = Failing(KeyboardInterrupt, only=threading.main_thread())
    with open_with(tmp_path / "store", function=order) as db:
        for i in range(PAIRS):
            db[key_of(i)] = b""
        order.left = 2
        with pytest.raises(KeyboardInterrupt):
            db[b"new"] = b"value"
        assert db[b"new"] == b"value"
        order.left = 500
        with pytest.raises(KeyboardInterrupt):
            db.compact_range()
        assert len(list(db)) == PAIRS + 1


def test_a_key_that_cannot_be_compared_is_refused_wherever_it_is_given(tmp_path):
    with open_with(tmp_path / "store", function=by_number) as db:
        db[b"1"] = db[b"2"] = b""
        with db.snapshot() as snapshot, db.cursor() as cursor:
            for call in (
                lambda: db.range(stop=b"x"),
                lambda: db.cursor(b"x"),
                lambda: cursor.seek(b"x"),
                lambda: db.delete_range(b"x"),
                lambda: db.compact_range(b"x"),
                lambda: db.approximate_bytes(b"x"),
                lambda: db.write_batch().delete_range(b"x"),
                lambda: snapshot.range(b"x"),
                lambda: snapshot.cursor(b"x"),
                lambda: db.transaction().range(b"x"),
                lambda: db.transaction().delete_range(b"x"),
            ):
                with pytest.raises(ValueError, match="invalid literal"):
                    call()
        db[b"3"] = b""
        assert list(db) == [b"1", b"2", b"3"]


def test_a_comparator_cannot_use_its_store(tmp_path):
    seen = []

    def order(a, b):
        if a != b and armed:
            for call in (lambda: db.get(b"a"), lambda: db.put(b"z", b""), lambda: list(db), db.stats):
                try:
                    call()
                except cantle.InvalidArgumentError as error:
                    seen.append(str(error))
        return (a > b) - (a < b)

    armed = False
    with open_with(tmp_path / "store", function=order) as db:
        db[b"a"] = b""
        armed = True
        db[b"b"] = b""
        armed = False
        assert list(db) == [b"a", b"b"]
    assert len(seen) >= 4
    assert all("comparator" in text for text in seen)


def test_what_a_comparator_closes_does_not_wait_for_it(tmp_path):
    left = []

    def order(a, b):
        if a != b and left:
            left.pop().close()
        return (a > b) - (a < b)

    with open_with(tmp_path / "store", function=order) as db:
        db[b"a"] = db[b"b"] = db[b"c"] = b""
        found = db.range()
        left.append(found)
        # The step that waits for the comparison comes to its end, and no other.
        assert next(found) == (b"a", b"")
        assert not left
        with pytest.raises(cantle.ClosedError, match="the range is closed"):
            next(found)
        cursor = db.cursor()
        left.append(cursor)
        cursor.seek(b"b")
        assert not left
        with pytest.raises(cantle.ClosedError, match="the cursor is closed"):
            cursor.seek(b"b")
        assert list(db) == [b"a", b"b", b"c"]


def test_a_comparator_cannot_close_the_store(tmp_path):
    seen = []

    def order(a, b):
        if a != b and not seen:
            seen.append(True)
            try:
                db.close()
            except cantle.InvalidArgumentError as error:
                seen.append(str(error))
        gc.collect()
        return (a > b) - (a < b)

    with open_with(tmp_path / "store", function=order) as db:
        db[b"a"] = db[b"b"] = b""
        assert list(db) == [b"a", b"b"]
    assert "comparator" in seen[1]


def test_threads_and_maintenance_compare_at_once(tmp_path):
    with open_with(tmp_path / "store", layout="chunk:chunk_bytes=64KiB", memory_budget=16 << 20) as db:

        def work(number):
            for i in range(300):
                db[b"%04d/%d" % (i * 7 % 300, number)] = b"v" * 500

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        db.compact_range()
        found = list(db)
        assert len(found) == 900
        assert found == sorted(found, reverse=True)
    with open_with(tmp_path / "store") as db:
        assert list(db) == found
