/* Arguments that make no sense get an error, and nothing else happens. */
#include "check.h"

int main(int argc, char **argv) {
    tonearm_store *store, *second;
    tonearm_aru *unit, *ended;
    uint64_t number;
    size_t done;
    char buf[4];
    CHECK(argc == 2);
    CHECK(tonearm_last_error()[0] == 0);
    CHECK(tonearm_create(NULL, 1) == TONEARM_INVALID);
    CHECK(strcmp(tonearm_last_error(), "path is NULL") == 0);
    CHECK(tonearm_create(argv[1], 0) != TONEARM_OK);
    CHECK(tonearm_open(argv[1], &store) == TONEARM_NOT_FOUND);
    CHECK(tonearm_open_degraded(argv[1], &store) == TONEARM_NOT_FOUND);
    OK(tonearm_create(argv[1], 64 << 20));
    CHECK(tonearm_open(argv[1], NULL) == TONEARM_INVALID);
    OK(tonearm_open_degraded(argv[1], &store));
    OK(tonearm_close(store));
    OK(tonearm_open(argv[1], &store));
    CHECK(tonearm_open(argv[1], &second) == TONEARM_BUSY);

    CHECK(tonearm_durable(store, NULL) == TONEARM_INVALID);
    CHECK(tonearm_begin(store, NULL) == TONEARM_INVALID);
    CHECK(tonearm_begin(NULL, &unit) == TONEARM_INVALID);
    OK(tonearm_begin(store, &unit));
    /* Handles of the wrong kind, and such that never were. */
    CHECK(tonearm_flush((tonearm_store *)unit) == TONEARM_INVALID);
    CHECK(tonearm_create_file((tonearm_aru *)store, "x") == TONEARM_INVALID);
    CHECK(tonearm_create_file((tonearm_aru *)buf, "x") == TONEARM_INVALID);
    CHECK(tonearm_create_file(NULL, "x") == TONEARM_INVALID);
    CHECK(tonearm_close((tonearm_store *)buf) == TONEARM_INVALID);
    tonearm_abort(NULL);
    tonearm_abort((tonearm_aru *)store);

    CHECK(tonearm_create_file(unit, NULL) == TONEARM_INVALID);
    CHECK(tonearm_create_file(unit, "") == TONEARM_INVALID);
    CHECK(tonearm_create_file(unit, "\xff") == TONEARM_INVALID);
    OK(tonearm_create_file(unit, "x"));
    CHECK(tonearm_rename(unit, "x", NULL) == TONEARM_INVALID);
    CHECK(tonearm_size(unit, "x", NULL) == TONEARM_INVALID);
    CHECK(tonearm_read(unit, "x", 0, NULL, 1, &done) == TONEARM_INVALID);
    CHECK(tonearm_read(unit, "x", 0, buf, 1, NULL) == TONEARM_INVALID);
    OK(tonearm_read(unit, "x", 0, NULL, 0, &done));
    CHECK(done == 0);
    CHECK(tonearm_write(unit, "x", 0, NULL, 1) == TONEARM_INVALID);
    CHECK(tonearm_write(unit, "x", 0, "x", (size_t)-1) == TONEARM_INVALID);
    OK(tonearm_write(unit, "x", 0, NULL, 0));
    CHECK(tonearm_write(unit, "x", UINT64_MAX, "x", 1) != TONEARM_OK);
    CHECK(tonearm_resize(unit, "none", 1) == TONEARM_NOT_FOUND);

    ended = unit;
    OK(tonearm_end(unit, &number));
    CHECK(tonearm_end(ended, &number) == TONEARM_INVALID);
    CHECK(tonearm_write(ended, "x", 0, "x", 1) == TONEARM_INVALID);
    second = store;
    OK(tonearm_close(store));
    CHECK(tonearm_close(second) == TONEARM_INVALID);
    CHECK(tonearm_begin(second, &unit) == TONEARM_INVALID);
    CHECK(tonearm_flush(second) == TONEARM_INVALID);
    return 0;
}
