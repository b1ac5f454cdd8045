//! Access control lists on a mount: what setfacl(1) sets, who may use a file then, what modes and new files get.

use std::fs;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, TreeMount, skipped};

/// Runs in the root of the mount, as root. `other` runs a command as another user.
const STEPS: &str = r#"
umask 022
other() { setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@" 2>/dev/null && echo allowed || echo refused; }
list() { getfacl --omit-header --absolute-names --numeric "$@" | sed 's/[[:space:]]*#.*//' | tr '\n' ' '; echo; }
echo secret >file; chmod 640 file
other cat file
setfacl -m u:65534:r file;  list file; stat -c %a file; other cat file
chmod 600 file;             list file; other cat file
chmod 660 file;             list file; other cat file; other sh -c 'echo >>file'
mkdir dir; setfacl -d -m u:65534:rwx,g::rx,o::- dir
touch dir/file; mkdir dir/dir; mknod dir/pipe p
list dir dir/file dir/dir dir/pipe
other sh -c 'echo >>dir/file'
umask 077; touch plain dir/masked; stat -c %a plain dir/masked
setfacl -m u::rwx,g::r,o::r plain; list plain; stat -c %a plain
setfacl -b file; list file; other cat file
setfacl -d -m u:1:r file 2>/dev/null && echo kept || echo 'no default list of a file'
setfacl -k dir; touch dir/after; stat -c %a dir/after
"#;

/// What it says, also on ext4.
const EXPECTED: &str = "\
refused
user::rw- user:65534:r-- group::r-- mask::r-- other::---  
640
secret
allowed
user::rw- user:65534:r-- group::r-- mask::--- other::---  
refused
user::rw- user:65534:r-- group::r-- mask::rw- other::---  
secret
allowed
refused
user::rwx group::r-x other::r-x default:user::rwx default:user:65534:rwx default:group::r-x default:mask::rwx default:other::---  user::rw- user:65534:rwx group::r-x mask::rw- other::---  user::rwx user:65534:rwx group::r-x mask::rwx other::--- default:user::rwx default:user:65534:rwx default:group::r-x default:mask::rwx default:other::---  user::rw- user:65534:rwx group::r-x mask::rw- other::---  
allowed
600
660
user::rwx group::r-- other::r--  
744
user::rw- group::r-- other::---  
refused
no default list of a file
600
";

/// A list is kept over the next mount, with the modes that it has changed. (An owner without privilege, the group's bits and
/// renames are tests of pjdfstest.)
#[test]
fn lists_of_access_control_are_obeyed_inherited_and_kept() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let sizes = ["--size", "64MiB", "--log-size", "16MiB", "--no-volume"];
    let bench = Bench::created(&sizes);
    let mount = TreeMount::with_options(&bench, "allow_other");
    let said = bench.tool("sh", &["-c", &format!("cd mnt && {STEPS}")]);
    assert_eq!(said, EXPECTED, "{said}");
    let lists = ["-c", "cd mnt && getfacl -R -n ."];
    let before = bench.tool("sh", &lists);
    assert!(before.contains("default:user:65534:rwx"), "{before}");
    mount.unmount();
    let mount = TreeMount::new(&bench);
    assert_eq!(bench.tool("sh", &lists), before);
    assert!(fs::metadata(mount.path("dir/masked")).is_ok());
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}
