/*
** SQLite on a Tonearm store, for programs that link SQLite and libtonearm_sqlite.a.
**
** Call tonearm_sqlite_register_linked(0) before the first sqlite3_open, or build SQLite with
** -DSQLITE_EXTRA_INIT=tonearm_sqlite_extra_init and compile this header into one file with
** TONEARM_SQLITE_DEFINE_EXTRA_INIT defined. Then open "file:app.db?vfs=tonearm&store=/path/store.tn".
*/
#ifndef TONEARM_SQLITE_H
#define TONEARM_SQLITE_H

#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the VFS calls in SQLite. */
typedef struct tonearm_sqlite_host {
  int (*libversion_number)(void);
  sqlite3_vfs *(*vfs_find)(const char *);
  int (*vfs_register)(sqlite3_vfs *, int);
  const char *(*uri_parameter)(const char *, const char *);
  int (*get_autocommit)(sqlite3 *);
  void *(*malloc64)(sqlite3_uint64);
  void (*log)(int, const char *, ...);
} tonearm_sqlite_host;

/* Registers the VFS "tonearm"; SQLITE_OK, or SQLITE_ERROR when SQLite is older than 3.32. */
int tonearm_sqlite_register(const tonearm_sqlite_host *host, int make_default);

/* For sqlite3_auto_extension. */
struct sqlite3_api_routines;
int sqlite3_tonearm_init(sqlite3 *, char **, const struct sqlite3_api_routines *);

/* Registers with the SQLite that this is compiled against. */
static inline int tonearm_sqlite_register_linked(int make_default) {
  tonearm_sqlite_host host;
  host.libversion_number = sqlite3_libversion_number;
  host.vfs_find = sqlite3_vfs_find;
  host.vfs_register = sqlite3_vfs_register;
  host.uri_parameter = sqlite3_uri_parameter;
  host.get_autocommit = sqlite3_get_autocommit;
  host.malloc64 = sqlite3_malloc64;
  host.log = sqlite3_log;
  return tonearm_sqlite_register(&host, make_default);
}

#ifdef TONEARM_SQLITE_DEFINE_EXTRA_INIT
int tonearm_sqlite_extra_init(const char *unused) {
  (void)unused;
  return tonearm_sqlite_register_linked(0);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
