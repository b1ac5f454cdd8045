# wrap.tcl SCRIPT: runs a test script of SQLite with its databases in a store (src/lib.rs).
#
# The scripts examine databases with Tcl's commands for host files. This file replaces these commands, so that they work
# on the union of the tests' directory and the store. A file of the store is found there, and a file that a script
# creates under a database's name is created in the store.

set store_directory [file normalize $::env(TONEARM_STORE)]

# The name in the store for $path, or "" when $path lies elsewhere. Rollback journals are never in the store.
proc store_name {path} {
  if {[string match *-journal $path] || $path eq ""} { return "" }
  if {[file_of_host dirname [file_of_host normalize $path]] ne $::store_directory} { return "" }
  return [file_of_host tail $path]
}

proc store_has {path} {
  set name [store_name $path]
  expr {$name ne "" && [store size $name] >= 0}
}

# Whether a file that a script creates under this name must be in the store, because SQLite will open it.
proc store_wants {path} {
  expr {[store_name $path] ne "" && [regexp {\.db|db$|-wal$|\.sqlite|^\.?/?(one|two|test[0-9]*)$} [file_of_host tail $path]]}
}

proc store_get {path} {
  set name [store_name $path]
  store read $name 0 [store size $name]
}

proc store_put {path data} {
  set name [store_name $path]
  store truncate $name 0
  if {[string length $data]} { store write $name 0 $data }
}

proc host_get {path} {
  set channel [open_of_host $path rb]
  set data [read $channel]
  close_of_host $channel
  return $data
}

proc host_put {path data} {
  set channel [open_of_host $path wb]
  puts -nonewline $channel $data
  close_of_host $channel
}

rename file file_of_host
proc file {subcommand args} {
  switch -glob -- $subcommand {
    exi* - isf* - rea* - wri* - owned {
      if {[llength $args] == 1 && [store_has [lindex $args 0]]} { return 1 }
    }
    siz* {
      set path [lindex $args 0]
      if {[store_has $path]} { return [store size [store_name $path]] }
    }
    mt* - at* {
      if {[llength $args] == 1 && [store_has [lindex $args 0]]} { return [clock seconds] }
    }
    del* {
      foreach path $args { if {[store_has $path]} { store delete [store_name $path] } }
    }
    cop* - ren* {
      set paths [lrange $args end-1 end]
      lassign $paths from to
      if {[file_of_host isdirectory $to]} { set to [file_of_host join $to [file_of_host tail $from]] }
      if {[store_has $from] || ([store_wants $to] && [file_of_host isfile $from])} {
        if {![string match -f* [lindex $args 0]] && [file exists $to]} {
          error "error copying \"$from\" to \"$to\": file already exists"
        }
        set data [expr {[store_has $from] ? [store_get $from] : [host_get $from]}]
        if {[store_has $from] || [store_wants $to]} {
          if {[store_name $to] ne "" && ([store_has $from] || [store_wants $to])} {
            store_put $to $data
          } else {
            host_put $to $data
          }
        }
        if {[string match r* $subcommand]} { file delete $from }
        return ""
      }
    }
  }
  uplevel 1 [list file_of_host $subcommand {*}$args]
}

rename glob glob_of_host
proc glob {args} {
  set found [list]
  set failed [catch { set found [uplevel 1 [list glob_of_host {*}$args]] } text]
  set options [lsearch -all -inline -glob $args -*]
  if {[lsearch -glob $options -d*] < 0} {
    foreach pattern $args {
      if {[string match -* $pattern] || [store_name $pattern] eq ""} { continue }
      set directory [file_of_host dirname $pattern]
      foreach name [store list] {
        if {[string match [file_of_host tail $pattern] $name]} {
          lappend found [expr {[string match */* $pattern] ? "$directory/$name" : $name}]
        }
      }
    }
  }
  set found [lsort -unique $found]
  if {$failed && ![llength $found]} { error $text }
  return $found
}

# A script that opens a file of the store gets a copy on the host. `close` writes the copy back into the store.
rename open open_of_host
proc open {path {access r} args} {
  set writes [regexp {[wa+]|WR} $access]
  if {[string match |* $path] || !([store_has $path] || ($writes && [store_wants $path]))} {
    return [open_of_host $path $access {*}$args]
  }
  set copy $::store_directory/copy-[incr ::store_copies]-[file_of_host tail $path]
  if {[store_has $path]} { host_put $copy [store_get $path] }
  set channel [open_of_host $copy $access {*}$args]
  set ::store_open($channel) [list [file_of_host normalize $path] $copy $writes]
  return $channel
}

rename close close_of_host
proc close {channel args} {
  close_of_host $channel {*}$args
  if {[info exists ::store_open($channel)]} {
    lassign $::store_open($channel) path copy writes
    unset ::store_open($channel)
    if {$writes} { store_put $path [host_get $copy] }
    file_of_host delete $copy
  }
}

rename hexio_read hexio_read_of_host
proc hexio_read {path offset bytes} {
  if {![store_has $path]} { return [hexio_read_of_host $path $offset $bytes] }
  string toupper [binary encode hex [store read [store_name $path] $offset $bytes]]
}

rename hexio_write hexio_write_of_host
proc hexio_write {path offset hex} {
  if {![store_has $path]} { return [hexio_write_of_host $path $offset $hex] }
  set data [binary decode hex $hex]
  store write [store_name $path] $offset $data
  return [string length $data]
}

rename md5file md5file_of_host
proc md5file {path args} {
  if {![store_has $path]} { return [md5file_of_host $path {*}$args] }
  set copy $::store_directory/copy-[incr ::store_copies]
  host_put $copy [store_get $path]
  set sum [md5file_of_host $copy {*}$args]
  file_of_host delete $copy
  return $sum
}

# The store belongs to this process. Under this permutation SQLite's tests leave out what such a VFS cannot do.
set ::G(perm:name) unix-excl

set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]
source $argv0
