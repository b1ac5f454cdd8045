/*
 * Writes a text to the beginning of several files of a mounted store, in one unit:
 *
 *     cc -I fronts/capi/include units.c -o units && units TEXT FILE...
 */
#define _GNU_SOURCE
#include "tonearm_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: units TEXT FILE...\n");
        return 2;
    }
    uint64_t unit = 0;
    int first = -1;
    for (int at = 2; at < count; at++) {
        int file = open(words[at], O_RDWR | O_DIRECT);
        if (file < 0) {
            perror(words[at]);
            return 1;
        }
        /* The unit lives as long as a descriptor of its own. */
        if (first < 0) {
            first = open(words[at], O_RDONLY);
            if (first < 0 || ioctl(first, TONEARM_UNIT_BEGIN, &unit) != 0) {
                perror("begin");
                return 1;
            }
        }
        if (ioctl(file, TONEARM_UNIT_ENLIST, &unit) != 0) {
            perror(words[at]);
            return 1;
        }
        if (pwrite(file, words[1], strlen(words[1]), 0) != (ssize_t)strlen(words[1])) {
            perror(words[at]);
            return 1;
        }
    }
    if (ioctl(first, TONEARM_UNIT_COMMIT) != 0) {
        fprintf(stderr, errno == ECANCELED ? "somebody else has changed a file\n" : "commit: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
