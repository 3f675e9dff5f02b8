"""Types of parts of keys that Python has none for."""

from __future__ import annotations


class Float32(float):
    """A float of 32 bits in a key, as other languages have them. It is another part than the same number as a float, which has
    64, and sorts before all of those.

    >>> import cantle
    >>> cantle.decode_key(cantle.encode_key((cantle.Float32(0.5), 0.5)))
    (Float32(0.5), 0.5)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float32({float.__repr__(self)})"


class Versionstamp(bytes):
    """A versionstamp of FoundationDB in a key: 12 bytes. Cantle never makes one, but reads, orders and writes those of others."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Versionstamp({bytes.__repr__(self)})"
