/*
 * Units on a mounted Tonearm store: several files change at once, or not at all.
 *
 * A unit is begun on a descriptor of any file or directory of the mount, and lives as long as this descriptor is open: soon after
 * it is closed, also by the end of the program, the unit is aborted (TONEARM_UNIT_ABORT does it at once). Until TONEARM_UNIT_COMMIT
 * nobody else sees anything of the unit. Then all of it is there, and durable. It needs nothing but this header.
 *
 *     uint64_t unit = 0;
 *     int dir = open("/mnt", O_RDONLY | O_DIRECTORY);
 *     ioctl(dir, TONEARM_UNIT_BEGIN, &unit);
 *     ioctl(one, TONEARM_UNIT_ENLIST, &unit);      // one and other were opened with O_RDWR | O_DIRECT
 *     ioctl(other, TONEARM_UNIT_ENLIST, &unit);
 *     pwrite(one, ...); pwrite(other, ...);
 *     if (ioctl(dir, TONEARM_UNIT_COMMIT) != 0 && errno == ECANCELED)
 *         // somebody else has changed one of the files: begin again
 *
 * Errors of the system calls below, and of others that belong to a unit: ECANCELED, others have changed what the unit has read
 * or changed, or it was open for too long, or it held the last space of a full store, and nothing of it has happened; ENOSPC, the
 * unit needs more memory than units may have; ENOTTY, it is not a file of a mounted store.
 */
#ifndef TONEARM_UNIT_H
#define TONEARM_UNIT_H

#include <stdint.h>
#include <sys/ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins a unit on the descriptor. The argument points to flags, 0 or TONEARM_UNIT_PROCESSES, in place of which the number of the
 * unit is stored. EINVAL: the descriptor or the process has a unit. EAGAIN: there are 1024 units, or 128 of this user.
 */
#define TONEARM_UNIT_BEGIN _IOWR(0xe7, 1, uint64_t)

/*
 * Makes this descriptor of a regular file belong to the unit whose number is at the argument: what is read and written through
 * it, its truncation and its allocation. The file must have been opened with O_DIRECT, so that the kernel keeps nothing of it;
 * offsets, lengths and addresses need no alignment. EINVAL: it was opened without. ENOENT: no such unit, or one of another user.
 * EEXIST: it belongs to another unit.
 */
#define TONEARM_UNIT_ENLIST _IOW(0xe7, 2, uint64_t)

/* Ends the unit that was begun on the descriptor. When it returns 0, all of the unit is there and durable. */
#define TONEARM_UNIT_COMMIT _IO(0xe7, 3)

/* Ends it without any effect. */
#define TONEARM_UNIT_ABORT _IO(0xe7, 4)

/*
 * Flag: all that the calling process and its descendants ask for belongs to the unit, and the files that they open from now on;
 * not the content of files that they have open. Descendants with another user or group, or with further capabilities, do not
 * belong to it. See `tonearm exec --atomic`.
 */
#define TONEARM_UNIT_PROCESSES ((uint64_t)1)

#ifdef __cplusplus
}
#endif

#endif
