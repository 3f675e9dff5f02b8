"""A program for plyvel: only its first import was changed.

    python words.py DIRECTORY WORD...
"""

import sys

from cantle import plyvel


def main(directory: str, words: "list[str]") -> None:
    with plyvel.DB(directory, create_if_missing=True, bloom_filter_bits=10) as db:
        counts = db.prefixed_db(b"count/")
        with counts.write_batch(transaction=True) as batch:
            for word in sorted(set(words)):
                batch.put(word.encode(), b"%d" % words.count(word))
        for key, count in counts.iterator(start=b"b", include_stop=True):
            print(key.decode(), int(count))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
