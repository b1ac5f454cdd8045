/* Threads with units of their own, and two that share one. */
#include <pthread.h>

#include "check.h"

static tonearm_store *store;
static tonearm_aru *shared;

static void *alone(void *argument) {
    char name[2] = {*(char *)argument, 0};
    for (int round = 0; round < 300; round++) {
        tonearm_aru *unit;
        uint64_t lsn, value = 0;
        size_t done;
        OK(tonearm_begin(store, &unit));
        OK(tonearm_read(unit, name, 0, &value, sizeof value, &done));
        CHECK(done == sizeof value && value == (uint64_t)round);
        value++;
        OK(tonearm_write(unit, name, 0, &value, sizeof value));
        OK(tonearm_end(unit, &lsn));
        if (round % 50 == 0) OK(tonearm_wait_durable(store, lsn));
    }
    return NULL;
}

static void *together(void *argument) {
    uint64_t at = *(char *)argument;
    for (int round = 0; round < 300; round++) OK(tonearm_write(shared, "shared", at, argument, 1));
    /* The last error is each thread's own. */
    CHECK(tonearm_flush(NULL) == TONEARM_INVALID);
    CHECK(strcmp(tonearm_last_error(), "the store is not open") == 0);
    return NULL;
}

int main(int argc, char **argv) {
    static char names[] = "abcdef";
    pthread_t threads[6];
    uint64_t zero = 0, size;
    tonearm_aru *unit;
    CHECK(argc == 2);
    OK(tonearm_create(argv[1], 64 << 20));
    OK(tonearm_open(argv[1], &store));
    OK(tonearm_begin(store, &unit));
    for (int i = 0; i < 6; i++) {
        char name[2] = {names[i], 0};
        OK(tonearm_create_file(unit, name));
        OK(tonearm_write(unit, name, 0, &zero, sizeof zero));
    }
    OK(tonearm_create_file(unit, "shared"));
    OK(tonearm_end(unit, NULL));
    OK(tonearm_begin(store, &shared));
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&threads[i], NULL, i < 4 ? alone : together, &names[i]) == 0);
    for (int i = 0; i < 6; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(tonearm_last_error()[0] == 0);
    OK(tonearm_end(shared, NULL));
    OK(tonearm_begin(store, &unit));
    OK(tonearm_size(unit, "shared", &size));
    CHECK(size == 'f' + 1);
    tonearm_abort(unit);
    OK(tonearm_close(store));
    return 0;
}
