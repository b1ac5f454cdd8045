# list.tcl SOURCE_TREE FILE: writes the paths of the scripts of SQLite's "veryquick" set into FILE, one a line.
lassign $argv source list
set argv0 $source/test/list.test
set argv {}
source $source/test/permutations.test
set scripts [test_set $allquicktests -exclude *malloc* *ioerr* *fault* *bigfile* *_err* \
                                              *fts5corrupt* *fts5big* *fts5aj*]
set channel [open $list w]
foreach script [lsort $scripts] {
  puts $channel [file normalize [file join $source/test $script]]
}
close $channel
