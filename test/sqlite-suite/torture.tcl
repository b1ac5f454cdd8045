# torture.tcl FIRST LAST: random transactions in every journal mode, for each seed from FIRST to LAST. The same seed
# always gives the same work. Prints a digest of all data after each transaction, and the result of each integrity
# check. Two programs that print the same text have the same data.
#
#   testfixture torture.tcl 1 50 >a; testfixture wrap.tcl torture.tcl 1 50 >b; cmp a b

lassign $argv first last

proc pick {args} { lindex $args [expr {int(rand() * [llength $args])}] }
proc below {limit} { expr {int(rand() * $limit)} }

proc sql {text} {
  if {[catch { db eval $text } result]} { return "error: $result" }
  return $result
}

proc digest {} {
  set all [list]
  foreach schema {main other} {
    foreach table {a b} { lappend all [sql "SELECT rowid, * FROM $schema.$table ORDER BY rowid"] }
  }
  md5 $all
}

proc change {} {
  set table [pick main.a main.b other.a other.b]
  set id [below 400]
  switch [below 6] {
    0 - 1 { sql "INSERT OR REPLACE INTO $table VALUES($id, '[string repeat [pick x y z] [below 600]]', [below 1000])" }
    2 { sql "UPDATE $table SET name = name || '[pick p q]', number = number + 1 WHERE id % 7 = [below 7]" }
    3 { sql "DELETE FROM $table WHERE id BETWEEN $id AND $id + [below 40]" }
    4 {
      sql "WITH n(i) AS (VALUES($id) UNION ALL SELECT i + 1 FROM n WHERE i < $id + [below 150])
           INSERT OR IGNORE INTO $table SELECT i, hex(zeroblob(i % 300)), i FROM n"
    }
    5 { sql "UPDATE OR IGNORE $table SET id = id + [below 9] WHERE number % 5 = [below 5]" }
  }
}

proc transaction {mode} {
  sql [pick BEGIN "BEGIN IMMEDIATE" "BEGIN EXCLUSIVE"]
  for {set i [below 8]} {$i >= 0} {incr i -1} {
    change
    if {$mode eq "off" || rand() < 0.7} { continue }
    sql "SAVEPOINT s"
    change
    change
    sql [pick "ROLLBACK TO s" "RELEASE s"]
    sql "RELEASE s"
  }
  sql [expr {$mode eq "off" ? "COMMIT" : [pick COMMIT COMMIT COMMIT ROLLBACK]}]
}

proc reopen {mode sync} {
  catch { db close }
  sqlite3 db torture.db
  sql "ATTACH 'torture2.db' AS other"
  foreach schema {main other} {
    sql "PRAGMA $schema.journal_mode = $mode"
    sql "PRAGMA $schema.synchronous = $sync"
    sql "PRAGMA $schema.cache_size = 6"
  }
}

for {set seed $first} {$seed <= $last} {incr seed} {
  foreach mode {delete truncate persist memory off wal} {
    expr {srand($seed)}
    foreach name {torture.db torture2.db} {
      foreach suffix {"" -wal -journal -shm} { file delete -force $name$suffix }
    }
    set sync [pick off normal full extra]
    sqlite3 db torture.db
    sql "ATTACH 'torture2.db' AS other"
    foreach schema {main other} {
      sql "PRAGMA $schema.page_size = [pick 512 1024 4096 16384]; PRAGMA $schema.auto_vacuum = [below 3]"
      foreach table {a b} {
        sql "CREATE TABLE $schema.$table\(id INTEGER PRIMARY KEY, name TEXT, number INTEGER)"
        sql "CREATE INDEX $schema.by_$table ON $table\(name, number)"
      }
    }
    reopen $mode $sync
    for {set i 0} {$i < 30} {incr i} {
      transaction $mode
      puts "$seed $mode $i [digest]"
      switch [below 12] {
        0 { reopen $mode $sync }
        1 { sql VACUUM }
        2 { sql "PRAGMA incremental_vacuum(5)" }
        3 { sql "PRAGMA wal_checkpoint([pick PASSIVE FULL RESTART TRUNCATE])" }
      }
    }
    foreach schema {main other} { puts "$seed $mode [sql "PRAGMA $schema.integrity_check"]" }
    puts "$seed $mode [digest] [sql "PRAGMA page_count"] [sql "PRAGMA freelist_count"]"
    db close
  }
}
