/* Tonearm's logical disk, for C.
 *
 * A store holds files and volumes, arrays of bytes by name, and lists of blocks by number. What is done in a recovery unit (tonearm_aru) is visible at
 * once when it ends, and is atomic across a crash.
 *
 *     tonearm_store *store;
 *     tonearm_aru *unit;
 *     if (tonearm_open("disk.tonearm", &store) != TONEARM_OK) die(tonearm_last_error());
 *     tonearm_begin(store, &unit);
 *     tonearm_create_file(unit, "accounts");
 *     tonearm_write(unit, "accounts", 0, "100", 3);
 *     uint64_t lsn;
 *     tonearm_end(unit, &lsn);
 *     tonearm_wait_durable(store, lsn);
 *     tonearm_close(store);
 *
 * Every function may be called by any thread; calls with one unit are done in turn. A function returns TONEARM_OK or one
 * of the other codes, and then tonearm_last_error() has the text. What it gives through pointers is written only when it
 * returns TONEARM_OK. Handles that are NULL, closed, or of the wrong kind are refused with TONEARM_INVALID.
 *
 * A store must not be used in a child process after fork(2); it refuses there. The kernel may interrupt system calls
 * (EINTR) of threads that have called the store.
 */
#ifndef TONEARM_H
#define TONEARM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Codes. */
#define TONEARM_OK 0
#define TONEARM_NOT_FOUND 1 /* no such store, volume, file, list or block */
#define TONEARM_EXISTS 2    /* there is one already */
#define TONEARM_NO_SPACE 3  /* the store, the file system below it, or the memory for open units is full */
#define TONEARM_READ_ONLY 4 /* the store or volume refuses writes */
#define TONEARM_DAMAGED 5   /* data failed its checksum */
#define TONEARM_CONFLICT 6  /* others have changed what a unit stands on; begin it again */
#define TONEARM_BUSY 7      /* another process has the store open */
#define TONEARM_FAILED 8    /* a device or the store failed, or it was closed */
#define TONEARM_INVALID 9   /* an argument makes no sense */
#define TONEARM_PANIC 10    /* a fault in Tonearm itself; close the store and open it again */

typedef struct tonearm_store tonearm_store;
typedef struct tonearm_aru tonearm_aru;

/* Text of the last error of the calling thread, or an empty string; valid until its next call. Never NULL. */
const char *tonearm_last_error(void);

/* Makes an empty store of size_bytes in a new file at path. */
int tonearm_create(const char *path, uint64_t size_bytes);

/* Opens the store at path, and recovers it if need be. */
int tonearm_open(const char *path, tonearm_store **store);

/* As tonearm_open, for a RAID-5 store that was not closed in order and lacks a member. tonearm_open refuses it, because
 * the member may only be late. This function opens it without the member. Blocks of that member may be lost then. */
int tonearm_open_degraded(const char *path, tonearm_store **store);

/* Aborts the units that are open, writes everything home and closes the store. The handle, and those of its units, are
 * invalid from then on, also when an error is returned: the next opening recovers then. */
int tonearm_close(tonearm_store *store);

/* Makes everything that has ended durable. */
int tonearm_flush(tonearm_store *store);

/* Writes everything that has ended home, and makes the log's start pass it: a recovery from then on replays nothing of it. The
 * store writes home by itself, too; this is for a moment that suits the program. */
int tonearm_checkpoint(tonearm_store *store);

/* LSN of the last unit that has ended, and of the last one that is durable: it and all before it survive any crash. Both wait
 * for no device, so that a program can look from time to time. */
int tonearm_appended(tonearm_store *store, uint64_t *lsn);
int tonearm_durable(tonearm_store *store, uint64_t *lsn);

/* Waits until the unit that ended with lsn, and all before it, are durable. TONEARM_INVALID when no unit has ended with lsn
 * yet. */
int tonearm_wait_durable(tonearm_store *store, uint64_t lsn);

/* An archive is a copy of the store's durable history in a folder or a bucket, from which `tonearm restore` makes the store
 * again, in the state of any archived unit. One archive of a store runs at a time. */

/* How an archive is written. Zeroes are the usual values. */
typedef struct tonearm_archive_options {
    uint64_t interval_ms;           /* longest time for which durable units wait; 0 for 1000 */
    uint64_t keep_ms;               /* for how long earlier states can be restored; 0 for ever */
    uint64_t keep_every_commit_ms;  /* for how long that of every unit; 0 for as long as keep_ms */
    uint64_t base_bytes_per_second; /* most bytes that are read for a base; 0 for no limit */
    const char *recipient;          /* public key of age for which it is encrypted; NULL for none */
} tonearm_archive_options;

/* States of an archive. */
#define TONEARM_ARCHIVE_NONE 0     /* the store was not archived since it was opened */
#define TONEARM_ARCHIVE_STARTING 1 /* it is taken over */
#define TONEARM_ARCHIVE_RUNNING 2  /* what becomes durable is archived */
#define TONEARM_ARCHIVE_WAITING 3  /* the bucket does not answer; why has the reason */
#define TONEARM_ARCHIVE_ENDED 4    /* nothing more is archived; why has the reason */

/* How far an archive is. */
typedef struct tonearm_archive_info {
    int state;             /* one of the above */
    int restorable;        /* 1 when the store can be restored from it */
    uint64_t archived_lsn; /* last archived unit; 0 while nothing can be restored */
    uint64_t lag;          /* durable units that are not archived */
    uint64_t gaps;         /* times that units were lost for it */
    uint64_t objects;      /* objects put */
    uint64_t stored_bytes; /* bytes put */
    char why[256];         /* UTF-8 with a zero byte, cut off at its end if it is long; empty when there is no reason */
} tonearm_archive_info;

/* Begins to archive the store at url: file:///folder or s3://bucket/prefix. A bucket takes keys, region and endpoint from the
 * environment (AWS_ACCESS_KEY_ID and so on). options may be NULL. Returns when the archive is taken over. When the bucket does
 * not answer, it returns TONEARM_OK, too, and goes on trying. A folder is made at the first start alone: a file next to the store
 * notes where it has been archived, and a folder that is missing later is waited for. TONEARM_FAILED when url cannot be used, when the archive there
 * belongs to another store, or when the store is archived already. tonearm_close archives what is left, for at most 30
 * seconds, and returns an error when it could not. */
int tonearm_archive_start(tonearm_store *store, const char *url, const tonearm_archive_options *options);

/* How far the archive is. */
int tonearm_archive_status(tonearm_store *store, tonearm_archive_info *info);

/* Gives the present state a name in the archive, for `tonearm restore --to-mark`. lsn may be NULL. */
int tonearm_archive_mark(tonearm_store *store, const char *name, uint64_t *lsn);

/* Archives what is durable, and ends the archive. */
int tonearm_archive_stop(tonearm_store *store);

/* LSN of the last archived unit, 0 while there is none. Waits for nothing. */
int tonearm_archived(tonearm_store *store, uint64_t *lsn);

/* Waits until the unit that ended with lsn, and all before it, are durable and archived. TONEARM_FAILED when there is no
 * archive, or it ends. */
int tonearm_wait_archived(tonearm_store *store, uint64_t lsn);

/* Begins a recovery unit. */
int tonearm_begin(tonearm_store *store, tonearm_aru **aru);

/* Ends a unit: all of it takes effect, or, on an error, nothing. The handle is invalid from then on in any case. lsn may
 * be NULL. */
int tonearm_end(tonearm_aru *aru, uint64_t *lsn);

/* Ends a unit without any effect. NULL and invalid handles are ignored. */
void tonearm_abort(tonearm_aru *aru);

/* Files and volumes, as the unit sees them. The name of a file is its path in the file system of the store, which a mount shows:
 * "accounts" or "shop/accounts". Each part has at most 255 bytes. Names are UTF-8. Offsets and sizes are in bytes. */

/* Makes an empty file. Its directory must be there. */
int tonearm_create_file(tonearm_aru *aru, const char *name);

/* Deletes a file or volume. */
int tonearm_delete(tonearm_aru *aru, const char *name);

/* Renames a file or volume. Replaces nothing. */
int tonearm_rename(tonearm_aru *aru, const char *from, const char *to);

/* Sets the size: what is cut off is gone, what is added reads as zeroes. */
int tonearm_resize(tonearm_aru *aru, const char *name, uint64_t size);

/* The size. */
int tonearm_size(tonearm_aru *aru, const char *name, uint64_t *size);

/* Reads at most len bytes at offset into buf; *done is how many, fewer than len only at the end. */
int tonearm_read(tonearm_aru *aru, const char *name, uint64_t offset, void *buf, size_t len, size_t *done);

/* Writes len bytes of data at offset. A file grows as needed, a volume does not. */
int tonearm_write(tonearm_aru *aru, const char *name, uint64_t offset, const void *data, size_t len);

/* Lists of blocks, as the unit sees them. A list is an ordered sequence of blocks, which are written and read as a whole;
 * its order guides where they are placed. Lists and blocks have numbers that stay theirs, also when the store is opened
 * again; none is 0. A number that a unit is given is nobody else's from then on; others see the list or block once the
 * unit has ended. What a unit that is aborted was given is given to others again. */

/* Bytes of a block; it never changes. */
int tonearm_block_size(tonearm_store *store, size_t *size);

/* Makes an empty list. */
int tonearm_new_list(tonearm_aru *aru, uint64_t *list);

/* Deletes a list with its blocks. */
int tonearm_delete_list(tonearm_aru *aru, uint64_t list);

/* Makes a block of zeroes on a list, after the block `after`, or at the head when `after` is 0. */
int tonearm_new_block(tonearm_aru *aru, uint64_t list, uint64_t after, uint64_t *block);

/* Takes a block off its list and frees it. */
int tonearm_delete_block(tonearm_aru *aru, uint64_t block);

/* Reads a block into buf. len must be the size of a block. */
int tonearm_read_block(tonearm_aru *aru, uint64_t block, void *buf, size_t len);

/* Writes a block. len must be the size of a block. */
int tonearm_write_block(tonearm_aru *aru, uint64_t block, const void *data, size_t len);

/* The blocks of a list in order: the first max of them into blocks; *count is how many the list has. With max 0, blocks
 * may be NULL. */
int tonearm_list_blocks(tonearm_aru *aru, uint64_t list, uint64_t *blocks, size_t max, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
