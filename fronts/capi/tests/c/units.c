/* Files in recovery units, from the making of a store to its second opening. */
#include "check.h"

static char long_data[3000000];

static void write_some(const char *path) {
    tonearm_store *store;
    tonearm_aru *unit, *other;
    uint64_t lsn = 0, size = 0;
    char buf[16];
    size_t done = 0;
    OK(tonearm_open(path, &store));
    OK(tonearm_begin(store, &unit));
    OK(tonearm_create_file(unit, "a"));
    OK(tonearm_write(unit, "a", 5, "tail", 4));
    OK(tonearm_read(unit, "a", 0, buf, sizeof buf, &done));
    CHECK(done == 9 && memcmp(buf, "\0\0\0\0\0tail", 9) == 0);
    /* Nobody else sees it. */
    OK(tonearm_begin(store, &other));
    CHECK(tonearm_size(other, "a", &size) == TONEARM_NOT_FOUND);
    CHECK(strstr(tonearm_last_error(), "\"a\"") != NULL);
    OK(tonearm_end(unit, &lsn));
    CHECK(lsn > 0);
    OK(tonearm_size(other, "a", &size));
    CHECK(size == 9);
    OK(tonearm_appended(store, &size));
    CHECK(size == lsn);
    OK(tonearm_wait_durable(store, lsn));
    OK(tonearm_checkpoint(store));
    OK(tonearm_durable(store, &size));
    CHECK(size >= lsn);
    CHECK(tonearm_wait_durable(store, size + 1) == TONEARM_INVALID);
    CHECK(strstr(tonearm_last_error(), "there is no commit") != NULL);
    /* What is aborted leaves nothing. */
    OK(tonearm_write(other, "a", 0, "gone", 4));
    tonearm_abort(other);
    OK(tonearm_begin(store, &unit));
    OK(tonearm_read(unit, "a", 0, buf, 5, &done));
    CHECK(done == 5 && buf[0] == 0);
    /* Long writes, sizes, names. */
    memset(long_data, 7, sizeof long_data);
    OK(tonearm_write(unit, "a", 1, long_data, sizeof long_data));
    OK(tonearm_resize(unit, "a", 100001));
    OK(tonearm_rename(unit, "a", "b"));
    OK(tonearm_create_file(unit, "empty"));
    OK(tonearm_create_file(unit, "shortlived"));
    OK(tonearm_delete(unit, "shortlived"));
    CHECK(tonearm_create_file(unit, "b") == TONEARM_EXISTS);
    OK(tonearm_end(unit, NULL));
    /* A conflict: the file is gone when the unit ends. */
    OK(tonearm_begin(store, &unit));
    OK(tonearm_write(unit, "empty", 0, "x", 1));
    OK(tonearm_begin(store, &other));
    OK(tonearm_delete(other, "empty"));
    OK(tonearm_end(other, NULL));
    CHECK(tonearm_end(unit, &lsn) == TONEARM_CONFLICT);
    OK(tonearm_flush(store));
    /* One that is left open is aborted. */
    OK(tonearm_begin(store, &unit));
    OK(tonearm_create_file(unit, "never"));
    OK(tonearm_close(store));
    CHECK(tonearm_end(unit, NULL) == TONEARM_INVALID);
}

static void read_again(const char *path) {
    tonearm_store *store;
    tonearm_aru *unit;
    uint64_t size = 0;
    size_t done = 0;
    OK(tonearm_open(path, &store));
    OK(tonearm_begin(store, &unit));
    OK(tonearm_size(unit, "b", &size));
    CHECK(size == 100001);
    OK(tonearm_read(unit, "b", 0, long_data, sizeof long_data, &done));
    CHECK(done == 100001 && long_data[0] == 0 && long_data[1] == 7 && long_data[100000] == 7);
    CHECK(tonearm_size(unit, "never", &size) == TONEARM_NOT_FOUND);
    CHECK(tonearm_size(unit, "a", &size) == TONEARM_NOT_FOUND);
    OK(tonearm_end(unit, NULL));
    OK(tonearm_close(store));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(tonearm_create(argv[1], 64 << 20));
    CHECK(tonearm_create(argv[1], 64 << 20) == TONEARM_EXISTS);
    write_some(argv[1]);
    read_again(argv[1]);
    return 0;
}
