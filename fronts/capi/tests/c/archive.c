/* A store that the program archives in a folder next to it. */
#include "check.h"
#include <unistd.h>

static uint64_t add(tonearm_store *store, uint64_t place) {
    tonearm_aru *unit;
    uint64_t lsn = 0;
    OK(tonearm_begin(store, &unit));
    OK(tonearm_write(unit, "log", 8 * place, &place, sizeof place));
    OK(tonearm_end(unit, &lsn));
    return lsn;
}

int main(int count, char **words) {
    tonearm_store *store;
    tonearm_aru *unit;
    tonearm_archive_info info;
    tonearm_archive_options options = {.interval_ms = 20};
    uint64_t lsn, archived = 0, place;
    char url[1000], away[1000];
    CHECK(count == 2);
    snprintf(url, sizeof url, "file://%s.archive", words[1]);
    OK(tonearm_create(words[1], 64 << 20));
    OK(tonearm_open(words[1], &store));
    OK(tonearm_begin(store, &unit));
    OK(tonearm_create_file(unit, "log"));
    OK(tonearm_end(unit, &lsn));
    /* There is none yet. */
    OK(tonearm_archive_status(store, &info));
    CHECK(info.state == TONEARM_ARCHIVE_NONE && info.why[0] == 0);
    CHECK(tonearm_wait_archived(store, lsn) == TONEARM_FAILED);
    CHECK(strstr(tonearm_last_error(), "no archive") != NULL);
    CHECK(tonearm_archive_stop(store) == TONEARM_FAILED);
    CHECK(tonearm_archive_mark(store, "early", NULL) == TONEARM_FAILED);
    /* Addresses that cannot be used. */
    CHECK(tonearm_archive_start(store, NULL, NULL) == TONEARM_INVALID);
    CHECK(tonearm_archive_start(store, "backup", NULL) == TONEARM_FAILED);
    CHECK(strstr(tonearm_last_error(), "no address") != NULL);

    options.recipient = "nobody";
    CHECK(tonearm_archive_start(store, url, &options) == TONEARM_FAILED);
    CHECK(strstr(tonearm_last_error(), "'nobody' is no recipient") != NULL);
    options.recipient = NULL;

    OK(tonearm_archive_start(store, url, &options));
    CHECK(tonearm_archive_start(store, url, NULL) == TONEARM_FAILED);
    CHECK(strstr(tonearm_last_error(), "archived at file://") != NULL);
    for (place = 0; place < 10; place++) {
        lsn = add(store, place);
        OK(tonearm_wait_archived(store, lsn));
        OK(tonearm_archived(store, &archived));
        CHECK(archived >= lsn);
    }
    CHECK(tonearm_wait_archived(store, lsn + 1000) == TONEARM_INVALID);
    OK(tonearm_archive_mark(store, "ten", &archived));
    CHECK(archived == lsn);
    CHECK(tonearm_archive_mark(store, "ten", NULL) == TONEARM_FAILED);
    CHECK(tonearm_archive_mark(store, "a/b", NULL) == TONEARM_FAILED);
    OK(tonearm_archive_status(store, &info));
    CHECK(info.state == TONEARM_ARCHIVE_RUNNING && info.restorable == 1 && info.archived_lsn == lsn);
    CHECK(info.gaps == 0 && info.lag == 0 && info.objects > 3 && info.stored_bytes > 0);
    /* The end takes what is durable. */
    lsn = add(store, 10);
    OK(tonearm_wait_durable(store, lsn));
    OK(tonearm_archive_stop(store));
    OK(tonearm_archived(store, &archived));
    CHECK(archived >= lsn);
    OK(tonearm_archive_status(store, &info));
    CHECK(info.state == TONEARM_ARCHIVE_ENDED && strstr(info.why, "stopped") != NULL);
    CHECK(tonearm_wait_archived(store, add(store, 11)) == TONEARM_FAILED);
    /* It goes on, also over a close, which takes what nobody has made durable. */
    OK(tonearm_archive_start(store, url, NULL));
    add(store, 12);
    OK(tonearm_close(store));
    OK(tonearm_open(words[1], &store));
    OK(tonearm_appended(store, &lsn));
    OK(tonearm_archive_start(store, url, NULL));
    OK(tonearm_archived(store, &archived));
    CHECK(archived == lsn);
    OK(tonearm_close(store));
    CHECK(tonearm_archive_status(store, &info) == TONEARM_INVALID);
    /* The disk of the archive is not mounted: no other folder is made in its place, and nothing is archived there. */
    snprintf(away, sizeof away, "%s.away", words[1]);
    CHECK(rename(url + strlen("file://"), away) == 0);
    OK(tonearm_open(words[1], &store));
    OK(tonearm_archive_start(store, url, &options));
    OK(tonearm_archive_status(store, &info));
    CHECK(info.state == TONEARM_ARCHIVE_WAITING && strstr(info.why, "is its disk mounted?") != NULL);
    CHECK(access(url + strlen("file://"), F_OK) != 0);
    lsn = add(store, 13);
    CHECK(rename(away, url + strlen("file://")) == 0);
    OK(tonearm_wait_archived(store, lsn));
    OK(tonearm_close(store));
    return 0;
}
