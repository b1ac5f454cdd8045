/* Ends the program with the place and the last error when a condition does not hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tonearm.h"

#define CHECK(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\nlast error: %s\n", __FILE__, __LINE__, #condition,                \
                    tonearm_last_error());                                                                \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

#define OK(call) CHECK((call) == TONEARM_OK)
