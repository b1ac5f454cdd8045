/* Tonearm's logical disk, for C.
 *
 * A store holds files and volumes, arrays of bytes by name, and lists of blocks by number. What is done in a recovery unit (tonearm_aru) is visible at
 * once when it ends, and is there as a whole or not at all after a crash.
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

/* Waits until the unit that ended with lsn, and all before it, are durable. */
int tonearm_wait_durable(tonearm_store *store, uint64_t lsn);

/* Begins a recovery unit. */
int tonearm_begin(tonearm_store *store, tonearm_aru **aru);

/* Ends a unit: all of it takes effect, or, on an error, nothing. The handle is invalid from then on in any case. lsn may
 * be NULL. */
int tonearm_end(tonearm_aru *aru, uint64_t *lsn);

/* Ends a unit without any effect. NULL and invalid handles are ignored. */
void tonearm_abort(tonearm_aru *aru);

/* Files and volumes, as the unit sees them. Names are UTF-8, at most 255 bytes. Offsets and sizes are in bytes. */

/* Makes an empty file. */
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

/* Makes a block of zeroes on a list, behind the block after, or at the head when after is 0. */
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
