#!/usr/bin/env python3
"""Moves an amount between two files of a mounted store, in one unit.

    units.py FROM TO AMOUNT

Both files change at once or not at all, also when this program, the server or the machine ends at any moment. It needs nothing
but Python. The numbers are those of tonearm_unit.h.
"""

import errno
import fcntl
import os
import struct
import sys

BEGIN = 0xC008E701
ENLIST = 0x4008E702
COMMIT = 0xE703


def transfer(source, target, amount):
    """One attempt."""
    files = [os.open(path, os.O_RDWR | os.O_DIRECT) for path in (source, target)]
    folder = os.open(os.path.dirname(os.path.abspath(source)), os.O_RDONLY)
    try:
        # The flags go in, and the number of the unit comes back.
        unit = fcntl.ioctl(folder, BEGIN, struct.pack("Q", 0))
        for file in files:
            fcntl.ioctl(file, ENLIST, unit)
        amounts = [int(os.pread(file, 100, 0)) for file in files]
        if amounts[0] < amount:
            sys.exit(f"{source} has only {amounts[0]}")
        os.pwrite(files[0], b"%-20d" % (amounts[0] - amount), 0)
        os.pwrite(files[1], b"%-20d" % (amounts[1] + amount), 0)
        # Whatever ends the program before this aborts the unit.
        fcntl.ioctl(folder, COMMIT)
    finally:
        for descriptor in [*files, folder]:
            os.close(descriptor)


def main():
    source, target, amount = sys.argv[1], sys.argv[2], int(sys.argv[3])
    while True:
        try:
            return transfer(source, target, amount)
        except OSError as error:
            # Somebody else has changed one of the files meanwhile.
            if error.errno != errno.ECANCELED:
                raise


if __name__ == "__main__":
    main()
