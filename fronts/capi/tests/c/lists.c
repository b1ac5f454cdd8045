/* Lists in concurrent units: one ends, one is aborted, one is left open; then the store is opened again. */
#include "check.h"

static size_t size;
static char data[65536], buf[65536];

static void fill(tonearm_aru *unit, uint64_t block, int value) {
    memset(data, value, size);
    OK(tonearm_write_block(unit, block, data, size));
}

static void expect(tonearm_aru *unit, uint64_t block, int value) {
    memset(data, value, size);
    OK(tonearm_read_block(unit, block, buf, size));
    CHECK(memcmp(data, buf, size) == 0);
}

int main(int argc, char **argv) {
    tonearm_store *store;
    tonearm_aru *kept, *given_up, *open, *unit;
    uint64_t a, b, c, head, middle, tail, other, lsn, blocks[4] = {0};
    size_t count = 0;
    CHECK(argc == 2);
    OK(tonearm_create(argv[1], 64 << 20));
    OK(tonearm_open(argv[1], &store));
    OK(tonearm_block_size(store, &size));
    CHECK(size >= 512 && size <= sizeof buf);

    OK(tonearm_begin(store, &kept));
    OK(tonearm_begin(store, &given_up));
    OK(tonearm_begin(store, &open));
    OK(tonearm_new_list(kept, &a));
    OK(tonearm_new_list(given_up, &b));
    OK(tonearm_new_list(open, &c));
    CHECK(a != 0 && a != b && b != c && a != c);
    OK(tonearm_new_block(kept, a, 0, &tail));
    OK(tonearm_new_block(given_up, b, 0, &other));
    OK(tonearm_new_block(kept, a, 0, &head));
    OK(tonearm_new_block(kept, a, head, &middle));
    CHECK(head != 0 && head != other && middle != other && tail != other);
    fill(kept, head, 1);
    fill(kept, tail, 3);
    fill(given_up, other, 9);
    expect(kept, middle, 0);
    expect(given_up, other, 9);
    /* No unit sees what another one does, before that ends. */
    CHECK(tonearm_list_blocks(given_up, a, blocks, 4, &count) == TONEARM_NOT_FOUND);
    CHECK(tonearm_new_block(given_up, a, 0, &lsn) == TONEARM_NOT_FOUND);
    CHECK(tonearm_read_block(given_up, head, buf, size) == TONEARM_NOT_FOUND);
    OK(tonearm_end(kept, &lsn));
    OK(tonearm_list_blocks(given_up, a, blocks, 4, &count));
    CHECK(count == 3 && blocks[0] == head && blocks[1] == middle && blocks[2] == tail);
    /* A change of what is committed is given up too. */
    OK(tonearm_delete_block(given_up, middle));
    OK(tonearm_list_blocks(given_up, a, blocks, 4, &count));
    CHECK(count == 2 && blocks[1] == tail);
    tonearm_abort(given_up);
    OK(tonearm_wait_durable(store, lsn));

    /* What makes no sense. */
    OK(tonearm_begin(store, &unit));
    CHECK(tonearm_new_list(unit, NULL) == TONEARM_INVALID);
    CHECK(tonearm_new_list(NULL, &lsn) == TONEARM_INVALID);
    CHECK(tonearm_block_size(store, NULL) == TONEARM_INVALID);
    CHECK(tonearm_new_block(unit, a, 0, NULL) == TONEARM_INVALID);
    CHECK(tonearm_new_block(unit, a, UINT64_MAX, &lsn) == TONEARM_NOT_FOUND);
    CHECK(tonearm_read_block(unit, head, NULL, size) == TONEARM_INVALID);
    CHECK(tonearm_read_block(unit, head, buf, size - 1) == TONEARM_INVALID);
    CHECK(tonearm_write_block(unit, head, data, size - 1) == TONEARM_INVALID);
    CHECK(tonearm_write_block(unit, head, NULL, size) == TONEARM_INVALID);
    CHECK(tonearm_read_block(unit, 0, buf, size) == TONEARM_NOT_FOUND);
    CHECK(tonearm_delete_block(unit, UINT64_MAX) == TONEARM_NOT_FOUND);
    CHECK(tonearm_delete_list(unit, 0) == TONEARM_NOT_FOUND);
    CHECK(tonearm_delete_list(unit, UINT64_MAX) == TONEARM_NOT_FOUND);
    CHECK(tonearm_list_blocks(unit, a, NULL, 1, &count) == TONEARM_INVALID);
    CHECK(tonearm_list_blocks(unit, a, blocks, 1, NULL) == TONEARM_INVALID);
    tonearm_abort(unit);
    OK(tonearm_close(store));
    CHECK(tonearm_new_list(open, &c) == TONEARM_INVALID);

    OK(tonearm_open(argv[1], &store));
    OK(tonearm_begin(store, &unit));
    OK(tonearm_list_blocks(unit, a, NULL, 0, &count));
    CHECK(count == 3);
    blocks[2] = 0;
    OK(tonearm_list_blocks(unit, a, blocks, 2, &count));
    CHECK(count == 3 && blocks[0] == head && blocks[1] == middle && blocks[2] == 0);
    expect(unit, head, 1);
    expect(unit, middle, 0);
    expect(unit, tail, 3);
    CHECK(tonearm_list_blocks(unit, b, blocks, 4, &count) == TONEARM_NOT_FOUND);
    CHECK(tonearm_list_blocks(unit, c, blocks, 4, &count) == TONEARM_NOT_FOUND);
    CHECK(tonearm_read_block(unit, other, buf, size) == TONEARM_NOT_FOUND);
    OK(tonearm_delete_list(unit, a));
    CHECK(tonearm_list_blocks(unit, a, blocks, 4, &count) == TONEARM_NOT_FOUND);
    OK(tonearm_end(unit, NULL));
    OK(tonearm_close(store));
    return 0;
}
