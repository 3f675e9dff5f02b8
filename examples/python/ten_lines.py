"""The program of docs/bindings.md, which is there in Rust, C and C++, too. Usage: ten_lines.py DIRECTORY"""

import sys

import cantle

with cantle.open(sys.argv[1] if len(sys.argv) > 1 else "flights") as db:
    db[b"UA/EWR/2013-07-04"] = b"delayed"
    db[b"UA/EWR/2013-07-05"] = b"on time"
    db[b"DL/LGA/2013-07-04"] = b"on time"
    for key, value in db.prefix(b"UA/EWR/", reverse=True):
        print(f"{key.decode()}: {value.decode()}")
