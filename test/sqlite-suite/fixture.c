/*
** Gives SQLite's test program the Tcl command
**
**   store list | size NAME | read NAME OFFSET BYTES | write NAME OFFSET DATA | truncate NAME SIZE
**         | delete NAME | rename FROM TO
**
** over the files of the store that stands for the tests' directory (src/lib.rs). The test program is linked with
** -Wl,--wrap=sqlite3TestInit,--wrap=rename.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcl.h>

long long suite_size(const char *name);
long long suite_read(const char *name, unsigned long long offset, unsigned char *out, size_t bytes);
int suite_write(const char *name, unsigned long long offset, const unsigned char *data, size_t bytes);
int suite_truncate(const char *name, unsigned long long size);
int suite_delete(const char *name);
int suite_rename(const char *from, const char *to);
void suite_list(void (*each)(void *, const char *), void *context);

static void append(void *list, const char *name) {
  Tcl_ListObjAppendElement(NULL, list, Tcl_NewStringObj(name, -1));
}

static int finish(Tcl_Interp *interp, int code) {
  if (code) {
    Tcl_SetResult(interp, "the store refuses", TCL_STATIC);
    return TCL_ERROR;
  }
  return TCL_OK;
}

static int store(void *unused, Tcl_Interp *interp, int argc, Tcl_Obj *const argv[]) {
  static const char *const names[] = {"list", "size", "read", "write", "truncate", "delete", "rename", NULL};
  static const int wanted[] = {2, 3, 5, 5, 4, 3, 4};
  enum { LIST, SIZE, READ, WRITE, TRUNCATE, DELETE, RENAME } which;
  int index;
  Tcl_WideInt offset = 0, bytes = 0;
  (void)unused;
  if (argc < 2) {
    Tcl_WrongNumArgs(interp, 1, argv, "SUBCOMMAND ...");
    return TCL_ERROR;
  }
  if (Tcl_GetIndexFromObj(interp, argv[1], names, "subcommand", 0, &index)) return TCL_ERROR;
  if (argc != wanted[index]) {
    Tcl_WrongNumArgs(interp, 2, argv, "...");
    return TCL_ERROR;
  }
  which = index;
  const char *name = argc > 2 ? Tcl_GetString(argv[2]) : NULL;
  if ((which == READ || which == WRITE || which == TRUNCATE) && Tcl_GetWideIntFromObj(interp, argv[3], &offset))
    return TCL_ERROR;
  switch (which) {
    case LIST: {
      Tcl_Obj *list = Tcl_NewListObj(0, NULL);
      suite_list(append, list);
      Tcl_SetObjResult(interp, list);
      return TCL_OK;
    }
    case SIZE:
      Tcl_SetObjResult(interp, Tcl_NewWideIntObj(suite_size(name)));
      return TCL_OK;
    case READ: {
      if (Tcl_GetWideIntFromObj(interp, argv[4], &bytes)) return TCL_ERROR;
      unsigned char *out = (unsigned char *)Tcl_Alloc(bytes + 1);
      long long count = suite_read(name, offset, out, bytes);
      if (count >= 0) Tcl_SetObjResult(interp, Tcl_NewByteArrayObj(out, (int)count));
      Tcl_Free((char *)out);
      return finish(interp, count < 0);
    }
    case WRITE: {
      int length;
      const unsigned char *data = Tcl_GetByteArrayFromObj(argv[4], &length);
      return finish(interp, suite_write(name, offset, data, length));
    }
    case TRUNCATE:
      return finish(interp, suite_truncate(name, offset));
    case DELETE:
      return finish(interp, suite_delete(name));
    case RENAME:
      return finish(interp, suite_rename(name, Tcl_GetString(argv[3])));
  }
  return TCL_ERROR;
}

/* Name in the store of a path that the VFS has made absolute, or NULL when the path lies elsewhere. */
static const char *in_store(const char *path) {
  const char *directory = getenv("TONEARM_STORE");
  size_t length = directory ? strlen(directory) : 0;
  return length && !strncmp(path, directory, length) && path[length] == '/' ? path + length + 1 : NULL;
}

int __real_rename(const char *from, const char *to);

/* RBU renames a database's files with rename(2), without a call of its VFS. */
int __wrap_rename(const char *from, const char *to) {
  const char *old = in_store(from), *new = in_store(to);
  if (old && new && suite_size(old) >= 0) return suite_rename(old, new) ? -1 : 0;
  return __real_rename(from, to);
}

const char *__real_sqlite3TestInit(Tcl_Interp *interp);

const char *__wrap_sqlite3TestInit(Tcl_Interp *interp) {
  Tcl_CreateObjCommand(interp, "store", store, NULL, NULL);
  return __real_sqlite3TestInit(interp);
}
